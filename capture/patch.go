package capture

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// nodePatch is a JSON merge patch of a Node (RFC 7386). With uid and resourceVersion, it applies only to the object that the change was
// decided for. Another object of that name answers 422, a newer state of it 409.
type nodePatch struct {
	Metadata struct {
		UID             string             `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Labels          map[string]*string `json:"labels,omitempty"`
		Annotations     map[string]*string `json:"annotations,omitempty"`

		ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec,omitempty"` // null removes a field
}

// PatchFor returns the body of a merge patch that makes a change on exactly that state of a Node.
func PatchFor(node *observe.Node, change plan.Plan) ([]byte, error) {
	var patch nodePatch
	patch.Metadata.UID = string(node.UID)
	patch.Metadata.ResourceVersion = node.ResourceVersion
	patch.Metadata.Labels = labelsPatch(change)
	patch.Metadata.Annotations = change.AnnotationPatch(node)
	patch.Metadata.ManagedFields = change.ManagedFields
	patch.Spec = map[string]any{}
	if taints, changed := change.TaintsAfter(node); changed {
		patch.Spec["taints"] = taints // the whole list, which is safe only together with the resourceVersion
	}
	_, cordoned := node.Items[policy.Cordon]
	if _, ok := change.ItemsAfter(node)[policy.Cordon]; ok && !cordoned {
		patch.Spec["unschedulable"] = true
	} else if cordoned && !ok {
		patch.Spec["unschedulable"] = nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", node.Name, err)
	}
	return body, nil
}

func labelsPatch(p plan.Plan) map[string]*string {
	labels := map[string]*string{}
	for _, edit := range p.Edits {
		switch {
		case !record.IsLabel(edit.Item):
		case edit.Removed:
			labels[edit.Item] = nil
		default:
			labels[edit.Item] = &edit.Value
		}
	}
	return labels
}
