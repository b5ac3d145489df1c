package webhook

import (
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// decideProtected is the second pass of the inline route. The first pass put ordinary labels in, closed the gate and stamped the
// object; NodeRestriction has judged that since, and nothing of the kind is judged again. So if only protected labels are
// still missing from a stamped object behind the gate, they go in now and the gate goes off. Labels of labels.defer wait, and the gate
// stays with them. In the first pass, or where anything else is missing, it does nothing, and all is left to capture.
//
// A kubelet that sends such a stamp itself makes its own registration be rejected, and no other.
func decideProtected(in incoming, k known, p policy.Policy) decision {
	nothing := decision{outcome: nothingMissing, stamp: in.annotations[policy.StampAnnotation], derived: in.annotations[policy.TaintsAnnotation]}
	if !p.RestoresInline() || in.occasion != policy.CreateByKubelet || !k.current || k.unreadable || k.record.Quarantined != nil {
		return nothing
	}
	stamp, stamped := record.ParseStamp(in.annotations[policy.StampAnnotation])
	if !stamped || !p.Gate().Holds(in.taints) {
		return nothing
	}
	restore := missing(in, k, p)
	inline, later := p.InlineOf(restore.Protected)
	if len(inline) == 0 || len(restore.Add) > 0 {
		return nothing
	}
	d := decision{
		restore: policy.Restore{Add: inline, Withheld: restore.Withheld},
		gate:    p.Gate(),
		move:    liftGate,
		derived: nothing.derived,
		outcome: restoredInline,
	}
	if len(later) > 0 {
		d.move = leaveGate
	}
	if d.stamp, _ = policy.Annotations(stamp.With(inline, 0), policy.DerivedTaints(d.derived), policy.AnnotationBytes(in.annotations)); d.stamp == "" {
		return nothing
	}
	return d
}
