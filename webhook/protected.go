package webhook

import (
	"maps"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// decideProtected is the second pass of the inline route. The first pass added ordinary labels, closed the gate and stamped the object.
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
	second := decision{restore: restorable(in, k, p)}.withLabels(before, k, p)
	inline, later := p.InlineOf(second.restore.Protected)
	rules, rulesLater := p.InlineOf(values(second.later))
	if len(inline)+len(rules) == 0 || len(second.restore.Add) > 0 {
		return nothing
	}
	d := decision{
		restore: policy.Restore{Add: inline, Withheld: second.restore.Withheld},
		labels:  maps.Clone(second.later),
		gate:    p.Gate(),
		move:    liftGate,
		outcome: restoredInline,
	}
	maps.DeleteFunc(d.labels, func(key string, _ record.Derived) bool { _, goesIn := rules[key]; return !goesIn })
	if len(later)+len(rulesLater) > 0 {
		d.move = leaveGate
	}
	own.Labels = merged(own.Labels, d.labels)
	from := k.record
	if d.owners = d.ownersAfter(in, k, p); d.owners.after == nil {
		from = from.WithoutOwners()
	}
	own.Stamp = stamp.With(inline, from, 0)
	if d.own = own.Annotations(policy.AnnotationBytes(in.annotations)); d.own[policy.StampAnnotation] == "" || !policy.RoomFor(own.Labels, policy.AnnotationBytes(in.annotations)) {
		return nothing
	}
	return d
}

// values are the labels that rules set, by key.
func values(derived map[string]record.Derived) map[string]string {
	labels := make(map[string]string, len(derived))
	for key, label := range derived {
		labels[key] = label.Value
	}
	return labels
}

func merged(a, b map[string]record.Derived) map[string]record.Derived {
	all := map[string]record.Derived{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
