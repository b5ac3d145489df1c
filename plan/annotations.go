package plan

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// AnnotationPatch returns the annotations that a plan writes on a live Node. They are those among the items, and nodekeep's own. These are the stamp, and
// the lists of derived taints and of labels that rules set. A nil value removes the annotation.
func (p Plan) AnnotationPatch(node *observe.Node) map[string]*string {
	annotations, bytes := map[string]*string{}, node.AnnotationBytes
	for _, edit := range p.WithCause(CauseRecord, CauseCorrection) {
		annotation, ok := record.Annotation(edit.Item)
		switch {
		case !ok:
		case edit.Removed:
			annotations[annotation] = nil
		default:
			annotations[annotation] = &edit.Value
			bytes += len(annotation) + len(edit.Value)
		}
	}
	if p.ByClient {
		return annotations
	}
	next, changed := p.stampAfter(node)
	for _, edit := range p.WithCause(CauseGate) {
		next.TaintsBehindGate, changed = taintKeys(edit.gate().RemoveFrom(node.Taints)), true
	}
	listed := policy.AnnotationContent{Stamp: next, Taints: p.DerivedTaints, Labels: p.labelsToList(node)}.Annotations(bytes)
	for _, row := range []struct {
		key    string
		writes bool
	}{
		{policy.StampAnnotation, listed[policy.StampAnnotation] != "" && changed},
		{policy.TaintsAnnotation, p.WritesTaintsAnnotation()}, {policy.LabelsAnnotation, p.WriteLabelsAnnotation},
	} {
		if !row.writes {
			continue
		}
		annotations[row.key] = nil // nothing to list, or no room
		if value, ok := listed[row.key]; ok {
			annotations[row.key] = &value
		}
	}
	return annotations
}

// stampAfter returns the stamp after the change, and whether it has to be written. Items that a client decided on this object are not listed in it: they
// are restored as the client's own. Nor are items that the change removes: their absence would look like a client's removal.
func (p Plan) stampAfter(node *observe.Node) (next record.Stamp, changed bool) {
	items := p.WithCause(CauseRecord, CauseCorrection)
	given := items.Values()
	maps.DeleteFunc(given, func(item, _ string) bool { return p.decidedOn(node.UID, item) })
	removed := slices.Concat(items, p.RuleEdits()).Removed()
	changed = len(items) > 0 || p.HasCause(CauseRegistrationTaint) || p.Boot != "" || slices.ContainsFunc(removed, p.StampBefore.Lists)
	next = p.StampBefore.Merge(given, p.SourceRecord, node.Version).Remove(removed)
	next.Boot = cmp.Or(p.Boot, next.Boot)
	return next, changed
}

// decidedOn reports whether an item is restored that was decided on this object.
func (p Plan) decidedOn(uid types.UID, item string) bool {
	e, known := p.SourceRecord.Entry(item)
	return known && p.SourceRecord.DecidedOn(e) == uid && slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Cause == CauseRecord && edit.Item == item })
}

// taintKeys returns the keys of taints, sorted; never nil.
func taintKeys(taints []corev1.Taint) []string {
	keys := []string{}
	for _, taint := range taints {
		keys = append(keys, record.TaintKey(taint))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
