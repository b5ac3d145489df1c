package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// preconditions make a patch apply to exactly the object that it was planned for. Another object of that name answers 422, a newer state of it 409.
type preconditions struct {
	UID             string             `json:"uid"`
	ResourceVersion string             `json:"resourceVersion"`
	Labels          map[string]*string `json:"labels,omitempty"` // nil removes one
	Annotations     map[string]string  `json:"annotations,omitempty"`
}

// patchNode writes what an action plans for a Node, as a JSON merge patch (RFC 7386).
func (c *Controller) patchNode(ctx context.Context, n *node, action verify.Action, profiles verify.Profiles) error {
	metadata := preconditions{UID: n.uid, ResourceVersion: n.version, Annotations: map[string]string{verify.Annotation: action.Progress.String()}}
	body := map[string]any{}
	opened := map[string]any{"taints": profiles.Opened(n.taints)} // the whole list, which is safe only together with the resourceVersion
	switch action.Operation {
	case verify.DoHold:
		body["spec"] = map[string]any{"taints": append(slices.Clone(n.taints), action.Hold)}
		metadata.Annotations = nil
	case verify.DoRecheck:
		body["spec"] = map[string]any{"taints": append(slices.Clone(n.taints), action.Hold)}
		metadata.Labels = unlabelled(n, profiles)
	case verify.DoUnhold:
		body["spec"] = opened
	case verify.DoOpen:
		body["spec"] = opened
		metadata.Labels = map[string]*string{profiles.Label: new("true")}
	case verify.DoFree:
		body["spec"] = opened
		fallthrough
	default:
		metadata.Labels = unlabelled(n, profiles)
	}
	body["metadata"] = metadata
	return c.patch(ctx, n, types.MergePatchType, body)
}

// unlabelled removes the label of verified Nodes, if the Node has it.
func unlabelled(n *node, profiles verify.Profiles) map[string]*string {
	if _, labelled := n.full.Labels[profiles.Label]; labelled {
		return map[string]*string{profiles.Label: nil}
	}
	return nil
}

// patchStatus writes the condition of a Node for [verify.DoShow].
func (c *Controller) patchStatus(ctx context.Context, n *node, show verify.Projection) error {
	condition := map[string]any{
		"type": verify.Condition, "status": show.Status, "reason": show.Reason, "message": show.Message, "lastHeartbeatTime": metav1.NewTime(c.Now()),
	}
	if n.full.Verified.Status != show.Status {
		condition["lastTransitionTime"] = metav1.NewTime(c.Now())
	}
	c.memory.change(n.uid, func(entry *remembered) {
		if !entry.closedSince.IsZero() {
			entry.shown = c.Now()
		}
	})
	return c.patch(ctx, n, types.StrategicMergePatchType, map[string]any{
		"metadata": preconditions{UID: n.uid, ResourceVersion: n.version}, "status": map[string]any{"conditions": []any{condition}},
	}, "status")
}

// patch patches a Node that was observed. If it has changed, the error is [remove.ErrChanged]; a Node that is deleted needs no patch.
func (c *Controller) patch(ctx context.Context, n *node, kind types.PatchType, body map[string]any, subresources ...string) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode patch of node %q: %w", n.name, err)
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, n.name, kind, text, metav1.PatchOptions{FieldManager: verify.Manager}, subresources...)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case store.IsConflict(err):
		return remove.ErrChanged
	}
	return fmt.Errorf("patch node %q: %w", n.name, err)
}

// reportMap returns the ConfigMap that keeps the report of an attempt that did not pass.
func reportMap(namespace string, report verify.SavedReport) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: report.Name(),
			Labels: map[string]string{verify.ReportLabel: "true", "app.kubernetes.io/managed-by": "nodekeep"},
		},
		Data: map[string]string{verify.ReportKey: report.String()},
	}
}
