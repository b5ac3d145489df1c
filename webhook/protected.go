package webhook

import (
	"maps"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// decideProtected returns the second pass of the inline route. The first pass added ordinary labels, closed the gate and stamped the object.
// NodeRestriction has judged that since, and does not judge it again. If a stamped object behind the gate lacks only protected labels, this
// pass adds them and removes the gate. Labels of labels.defer wait, and the gate stays with them. In the first pass, or if anything else is
// missing, it does nothing and leaves all to capture.
//
// A kubelet that sends such a stamp itself causes only its own registration to be rejected.
func decideProtected(in incoming, k known, p policy.Policy) decision {
	unchanged := decision{outcome: nothingMissing, annotations: map[string]string{}}
	for _, key := range []string{policy.LabelsAnnotation, policy.StampAnnotation, policy.TaintsAnnotation} {
		unchanged.annotations[key] = in.annotations[key]
	}
	if !p.RestoresInline() || in.occasion != policy.CreateByKubelet || !k.current || k.undecided || k.unreadable || k.isolated || k.record.Quarantined != nil {
		return unchanged
	}
	stamp, stamped := record.ParseStamp(in.annotations[policy.StampAnnotation])
	if !stamped || !p.Gate().Holds(in.taints) {
		return unchanged
	}
	state := policy.AnnotationContent{Taints: policy.DerivedTaints(unchanged.annotations[policy.TaintsAnnotation]), Labels: policy.RuleLabelsOf(unchanged.annotations[policy.LabelsAnnotation])}
	prev := in
	prev.labels = classify.WithoutRuleLabels(in.labels, state.Labels)
	due, _ := k.planFor(prev, prev.observed(p), p).WithoutItems(func(desired plan.DesiredItem) bool { // what the Node brought as a rule wants it
		value, shown := in.labels[desired.Item]
		return shown && !desired.Removed && value == desired.Value
	})
	inline, ok := due.InlinePlan(p)
	if !ok {
		return unchanged
	}
	d := decision{Plan: inline, outcome: restoredInline, restored: inline.WithCause(plan.CauseRecord).Values()}
	labels := maps.Clone(state.Labels)
	if labels == nil {
		labels = map[string]record.RuleLabel{}
	}
	maps.Copy(labels, inline.RuleLabels)
	state.Labels = labels
	from := k.record
	if d.owners = d.ownersAfter(in, k, p); d.owners.updated == nil {
		from = from.WithoutOwners()
	}
	state.Stamp = stamp.Merge(d.restored, from, 0)
	if d.annotations = state.Annotations(policy.AnnotationBytes(in.annotations)); d.annotations[policy.StampAnnotation] == "" || !policy.RoomFor(state.Labels, policy.AnnotationBytes(in.annotations)) {
		return unchanged
	}
	return d
}
