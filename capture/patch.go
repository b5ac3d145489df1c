package capture

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// nodePatch is a JSON merge patch of a Node (RFC 7386). uid and resourceVersion make it apply to exactly the object that
// the change was decided for: another object of that name answers 422, a newer state of it 409.
type nodePatch struct {
	Metadata struct {
		UID             string             `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Labels          map[string]*string `json:"labels,omitempty"`
		Annotations     map[string]*string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec *taintsPatch `json:"spec,omitempty"`
}

// taintsPatch replaces the whole list, which is safe only together with the resourceVersion.
type taintsPatch struct {
	Taints []corev1.Taint `json:"taints"` // null removes the list
}

// PatchFor is the body of a merge patch that makes a change on exactly that state of a Node.
func PatchFor(node *observe.Node, change Change, gate policy.Gate) ([]byte, error) {
	var patch nodePatch
	patch.Metadata.UID = string(node.UID)
	patch.Metadata.ResourceVersion = node.ResourceVersion
	patch.Metadata.Labels = change.labelsPatch()
	patch.Metadata.Annotations = change.annotationsPatch(node)
	if taints, changed := change.taintsOn(node, gate); changed {
		patch.Spec = &taintsPatch{Taints: taints}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", node.Name, err)
	}
	return body, nil
}

func (c Change) labelsPatch() map[string]*string {
	labels := map[string]*string{}
	for _, put := range []map[string]string{c.Give, c.Correct} {
		for key, value := range put {
			if !record.IsTaint(key) {
				labels[key] = &value
			}
		}
	}
	for _, key := range c.Remove {
		if !record.IsTaint(key) {
			labels[key] = nil
		}
	}
	return labels
}

// annotationsPatch writes what nodekeep has set by then, and which taints it has derived.
func (c Change) annotationsPatch(node *observe.Node) map[string]*string {
	if c.ByClient {
		return nil
	}
	annotations := map[string]*string{}
	after := c.Stamp.With(c.Give, node.Version).With(c.Correct, node.Version).Without(c.Remove)
	stamp, derived := policy.Annotations(after, c.Derived, node.AnnotationBytes)
	if stamp != "" && (!c.complete() || len(c.Register) > 0) {
		annotations[policy.StampAnnotation] = &stamp
	}
	if c.lists() {
		if annotations[policy.TaintsAnnotation] = &derived; derived == "" {
			annotations[policy.TaintsAnnotation] = nil
		}
	}
	return annotations
}
