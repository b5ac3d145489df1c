package controller

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
)

// preconditions make a patch apply to exactly the object that it was planned for. Another object of that name answers 422, a newer state of it 409.
type preconditions struct {
	UID             string             `json:"uid"`
	ResourceVersion string             `json:"resourceVersion"`
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
}

// nodePatch is the JSON merge patch of a Node (RFC 7386) for an action.
func nodePatch(n *node, action verify.Action, profiles verify.Profiles) ([]byte, error) {
	annotation, yes := action.Progress.String(), "true"
	metadata := preconditions{UID: n.uid, ResourceVersion: n.version, Annotations: map[string]*string{verify.Annotation: &annotation}, Labels: map[string]*string{}}
	patch := map[string]any{}
	switch action.Do {
	case verify.DoOpen:
		metadata.Labels[profiles.Label] = &yes
		patch["spec"] = map[string]any{"taints": profiles.Opened(n.taints)} // the whole list, which is safe only together with the resourceVersion
	case verify.DoHold:
		patch["spec"] = map[string]any{"taints": append(slices.Clone(n.taints), action.Hold)}
		metadata.Annotations, metadata.Labels = nil, nil
	case verify.DoUnhold:
		patch["spec"] = map[string]any{"taints": profiles.Opened(n.taints)}
	case verify.DoFree:
		patch["spec"] = map[string]any{"taints": profiles.Opened(n.taints)}
	}
	if _, labelled := n.full.Labels[profiles.Label]; labelled && action.Do != verify.DoOpen && action.Do != verify.DoHold && action.Do != verify.DoUnhold && profiles.Label != "" {
		metadata.Labels[profiles.Label] = nil
	}
	patch["metadata"] = metadata
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", n.name, err)
	}
	return body, nil
}

// statusPatch is the strategic merge patch of a Node's status for [verify.DoShow].
func statusPatch(n *node, show verify.Projection, now time.Time) ([]byte, error) {
	condition := map[string]any{
		"type": verify.Condition, "status": show.Status, "reason": show.Reason, "message": show.Message, "lastHeartbeatTime": metav1.NewTime(now),
	}
	if n.full.Verified.Status != show.Status {
		condition["lastTransitionTime"] = metav1.NewTime(now)
	}
	body, err := json.Marshal(map[string]any{
		"metadata": preconditions{UID: n.uid, ResourceVersion: n.version}, "status": map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode status patch of node %q: %w", n.name, err)
	}
	return body, nil
}

// reportMap is the ConfigMap that keeps the report of an attempt that did not pass.
func reportMap(namespace string, report verify.SavedReport) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: verify.ReportName(report.Node),
			Labels: map[string]string{verify.ReportLabel: "true", "app.kubernetes.io/managed-by": "nodekeep"},
		},
		Data: map[string]string{verify.ReportKey: report.String()},
	}
}
