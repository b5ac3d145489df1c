package capture

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
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

// PatchFor is the body of a merge patch that makes a change on exactly that state of a Node.
func PatchFor(node *observe.Node, change Change, gate policy.Gate) ([]byte, error) {
	var patch nodePatch
	patch.Metadata.UID = string(node.UID)
	patch.Metadata.ResourceVersion = node.ResourceVersion
	patch.Metadata.Labels = change.labelsPatch()
	patch.Metadata.Annotations = change.annotationsPatch(node, gate)
	patch.Metadata.ManagedFields = change.ManagedFields
	patch.Spec = map[string]any{}
	if taints, changed := change.taintsOn(node, gate); changed {
		patch.Spec["taints"] = taints // the whole list, which is safe only together with the resourceVersion
	}
	_, was := node.Items[policy.Cordon]
	if _, is := change.itemsOn(node)[policy.Cordon]; is && !was {
		patch.Spec["unschedulable"] = true
	} else if was && !is {
		patch.Spec["unschedulable"] = nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", node.Name, err)
	}
	return body, nil
}

func (c Change) labelsPatch() map[string]*string {
	labels := map[string]*string{}
	for _, items := range []map[string]string{c.Add, c.Correct, c.RuleSets} {
		for key, value := range items {
			labels[key] = &value
		}
	}
	for _, key := range slices.Concat(c.Remove, c.RuleRemoves) {
		labels[key] = nil
	}
	maps.DeleteFunc(labels, func(key string, _ *string) bool { return !record.IsLabel(key) })
	return labels
}

// given is what is added from the record and was decided on another object. What a client decided on this one is put back as the client's.
func (c Change) given(on types.UID) map[string]string {
	given := maps.Clone(c.Add)
	maps.DeleteFunc(given, func(key, _ string) bool {
		e, known := c.From.Entry(key)
		return known && c.From.DecidedOn(e) == on
	})
	return given
}

// taintKeys are the keys of taints, sorted; never nil.
func taintKeys(taints []corev1.Taint) []string {
	keys := []string{}
	for _, taint := range taints {
		keys = append(keys, record.TaintKey(taint))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// annotationsPatch writes the annotations among the items, what nodekeep has set by then, and which taints it has derived.
func (c Change) annotationsPatch(node *observe.Node, gate policy.Gate) map[string]*string {
	annotations, others := map[string]*string{}, node.AnnotationBytes
	for _, items := range []map[string]string{c.Add, c.Correct} {
		for annotation, value := range record.SplitAnnotations(items) {
			annotations[annotation] = &value
			others += len(annotation) + len(value)
		}
	}
	for _, key := range c.Remove {
		if annotation, ok := record.Annotation(key); ok {
			annotations[annotation] = nil
		}
	}
	if c.ByClient {
		return annotations
	}
	removed := slices.Concat(c.Remove, c.RuleRemoves) // if the stamp listed it, its absence would count as a client's removal
	after := c.Stamp.With(c.given(node.UID), c.From, node.Version).With(c.Correct, c.From, node.Version).Without(removed)
	if c.LiftGate {
		after.Opened = taintKeys(gate.Without(node.Taints))
	}
	own := policy.Own{Stamp: after, Taints: c.Derived, Labels: c.listedOn(node)}.Annotations(others)
	for _, one := range []struct {
		key    string
		writes bool
	}{
		{policy.StampAnnotation, own[policy.StampAnnotation] != "" && (!c.complete() || len(c.RegisterTaints) > 0 || c.LiftGate || slices.ContainsFunc(removed, c.Stamp.Lists))},
		{policy.TaintsAnnotation, c.lists()}, {policy.LabelsAnnotation, c.WriteLabelList},
	} {
		if !one.writes {
			continue
		}
		annotations[one.key] = nil // nothing to list, or no room
		if value, is := own[one.key]; is {
			annotations[one.key] = &value
		}
	}
	return annotations
}
