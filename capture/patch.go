package capture

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
)

// nodePatch is a JSON merge patch of a Node (RFC 7386). uid and resourceVersion make it apply to exactly the object that
// the plan was made for: another object of that name answers 422, a newer state of it 409.
type nodePatch struct {
	Metadata struct {
		UID             string             `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Labels          map[string]*string `json:"labels,omitempty"`
		Annotations     map[string]string  `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec *taintsPatch `json:"spec,omitempty"`
}

// taintsPatch replaces the whole list, which is safe only together with the resourceVersion.
type taintsPatch struct {
	Taints []corev1.Taint `json:"taints"` // null removes the list
}

// patchFor is the body of the PATCH that carries out a plan.
func patchFor(seen *Node, step Plan, gate policy.Gate) ([]byte, error) {
	var patch nodePatch
	patch.Metadata.UID = string(seen.UID)
	patch.Metadata.ResourceVersion = seen.ResourceVersion
	patch.Metadata.Labels = map[string]*string{}
	for key, value := range step.Give {
		patch.Metadata.Labels[key] = &value
	}
	for key, value := range step.PutRight {
		patch.Metadata.Labels[key] = &value
	}
	for _, key := range step.TakeBack {
		patch.Metadata.Labels[key] = nil
	}
	if step.Stamp != nil {
		patch.Metadata.Annotations = map[string]string{policy.StampAnnotation: step.Stamp.String()}
	}
	if step.LiftGate {
		patch.Spec = &taintsPatch{}
		if left := gate.Without(seen.Taints); len(left) > 0 {
			patch.Spec.Taints = left
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", seen.Name, err)
	}
	return body, nil
}
