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
	nothing := decision{outcome: nothingMissing, own: map[string]string{}}
	for _, key := range []string{policy.LabelsAnnotation, policy.StampAnnotation, policy.TaintsAnnotation} {
		nothing.own[key] = in.annotations[key]
	}
	if !p.RestoresInline() || in.occasion != policy.CreateByKubelet || !k.current || k.undecided || k.unreadable || k.isolated || k.record.Quarantined != nil {
		return nothing
	}
	stamp, stamped := record.ParseStamp(in.annotations[policy.StampAnnotation])
	if !stamped || !p.Gate().Holds(in.taints) {
		return nothing
	}
	own := policy.Own{Taints: policy.DerivedTaints(nothing.own[policy.TaintsAnnotation]), Labels: policy.DerivedLabels(nothing.own[policy.LabelsAnnotation])}
	before := in
	before.labels = classify.Without(in.labels, own.Labels)
	due, _ := k.planFor(before, before.observed(p), p).Without(func(set plan.Setting) bool { // what the Node brought as a rule wants it
		value, shown := in.labels[set.Item]
		return shown && !set.Removed && value == set.Value
	})
	inline, ok := due.Inline(p)
	if !ok {
		return nothing
	}
	d := decision{Plan: inline, outcome: restoredInline, restored: inline.By(plan.Record).Values()}
	labels := maps.Clone(own.Labels)
	if labels == nil {
		labels = map[string]record.Derived{}
	}
	maps.Copy(labels, inline.Labels)
	own.Labels = labels
	from := k.record
	if d.owners = d.ownersAfter(in, k, p); d.owners.after == nil {
		from = from.WithoutOwners()
	}
	own.Stamp = stamp.With(d.restored, from, 0)
	if d.own = own.Annotations(policy.AnnotationBytes(in.annotations)); d.own[policy.StampAnnotation] == "" || !policy.RoomFor(own.Labels, policy.AnnotationBytes(in.annotations)) {
		return nothing
	}
	return d
}
