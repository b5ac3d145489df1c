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
		Annotations     map[string]*string `json:"annotations,omitempty"`
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
	patch.Metadata.Labels = labelsPatch(step)
	patch.Metadata.Annotations = annotationsPatch(seen, step)
	if taints, changed := taintsAfter(seen, step, gate); changed {
		patch.Spec = &taintsPatch{Taints: taints}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", seen.Name, err)
	}
	return body, nil
}

func labelsPatch(step Plan) map[string]*string {
	labels := map[string]*string{}
	for _, put := range []map[string]string{step.Give, step.PutRight} {
		for item, value := range put {
			if !policy.IsTaint(item) {
				labels[item] = &value
			}
		}
	}
	for _, item := range step.TakeBack {
		if !policy.IsTaint(item) {
			labels[item] = nil
		}
	}
	return labels
}

// annotationsPatch writes the stamp, and shows people which of the Node's taints are our rules'; an annotation that lied
// about it is right after the next change.
func annotationsPatch(seen *Node, step Plan) map[string]*string {
	annotations := map[string]*string{}
	stamp := seen.Stamp.String()
	if step.Stamp != nil {
		stamp = step.Stamp.String()
		annotations[policy.StampAnnotation] = &stamp
	}
	if len(step.Put)+len(step.Take) > 0 {
		annotations[policy.TaintsAnnotation] = nil
		if shown := policy.Shown(step.RuleTaints); shown != "" && policy.RoomFor(seen.AnnotationBytes+len(stamp), shown) {
			annotations[policy.TaintsAnnotation] = &shown
		}
	}
	return annotations
}
