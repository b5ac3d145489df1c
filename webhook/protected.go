package webhook

import (
	"slices"

	"nodekeep.dev/nodekeep/policy"
)

// decideProtected is the second pass of the inline route. The first pass put ordinary labels in, closed the gate and wrote
// down what is pending; NodeRestriction has judged that since, and nothing of the kind is judged again. So if exactly
// what is still missing stands there as pending, behind the gate, it goes in now and the gate goes off. Labels of labels.defer stay pending, and the gate
// stays with them. In the first pass, or where anything differs, it does nothing, and what is pending is left to capture.
//
// A kubelet that sends such a stamp itself makes its own registration be rejected, and no other.
func decideProtected(in incoming, k known, p policy.Policy) decision {
	nothing := decision{outcome: nothingMissing, stamp: in.annotations[policy.StampAnnotation], shown: in.annotations[policy.TaintsAnnotation]}
	if !p.RestoresInline() || in.occasion != policy.CreateByKubelet || !k.current || k.unreadable || k.record.Quarantined != nil {
		return nothing
	}
	stamp, stamped := policy.ParseStamp(in.annotations[policy.StampAnnotation])
	if !stamped || !p.Gate().Holds(in.taints) {
		return nothing
	}
	restore := missing(in, k, p)
	inline, later := p.InlineOf(restore.Protected)
	if len(inline) == 0 || len(restore.Add) > 0 || !slices.Equal(keysOf(restore.Protected), policy.NewStamp(nil, stamp.Pending).Pending) {
		return nothing
	}
	d := decision{
		restore: policy.Restore{Add: inline, Withheld: restore.Withheld},
		gate:    p.Gate(),
		move:    liftGate,
		stamp:   stampFor(in, stamp.Given(inline)),
		shown:   nothing.shown,
		outcome: restoredInline,
	}
	if len(later) > 0 {
		d.move = leaveGate
	}
	return d
}
