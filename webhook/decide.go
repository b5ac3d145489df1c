package webhook

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// known is what the store knows of the registering Node.
type known struct {
	record     record.Record // the zero Record where there is none
	unreadable bool          // there is one, but nothing may be taken from it
	current    bool          // the store is up to date, as far as it can tell
}

// decision is what to do with a registering Node.
type decision struct {
	restore policy.Restore
	taints  []corev1.Taint // beside the restored ones: what rules want, and what a new Node gets once
	gate    policy.Gate
	move    gateMove
	stamp   string         // the annotation's new value; empty: the object must carry none
	derived string         // the same for the annotation that lists the taints of rules
	dropped record.Dropped // what the record holds and no Node can have
	outcome outcome
}

type gateMove int

const (
	leaveGate gateMove = iota
	closeGate          // put the gate on unless it holds already
	liftGate           // take every copy of it off
)

// decide says what a registering Node gets. Nothing is restored from a record that cannot be read or that is another
// machine's, and a gate that is on the Node then stays on. A store that may have fallen behind restores what it knows but
// does not lift the gate, which would claim that nothing else is missing. It stamps: else nobody could put right later what
// it restored from a record that was stale.
func decide(in incoming, k known, p policy.Policy) decision {
	switch {
	case k.unreadable:
		return decision{outcome: unreadableRecord, gate: p.Gate()}.withTaints(in, k, p)
	case k.record.Quarantined != nil || p.Quarantines(in.machine, k.record.Machine):
		return decision{outcome: otherMachine, gate: p.Gate()}.withTaints(in, k, p)
	}
	restore := missing(in, k, p)
	d := decision{restore: restore, outcome: outcomeOf(restore), gate: p.Gate(), dropped: k.record.Dropped}
	if k.current {
		d.move = liftGate
	}
	if len(restore.Protected) > 0 {
		d.move = closeGate
	}
	return d.withTaints(in, k, p)
}

// missing is what the registering Node lacks of what is remembered.
func missing(in incoming, k known, p policy.Policy) policy.Restore {
	return p.Missing(
		policy.Kept{Items: in.items(), Machine: in.machine},
		policy.Kept{Items: k.record.Items(), Machine: k.record.Machine}, in.occasion)
}

// withTaints completes a decision by the taints that follow from the labels which the Node will have, those that are
// still to come included, and by the stamp. A taint of the Node's own, or a restored one, is never doubled.
//
// Where the gate stays on an object that has no room for a stamp, capture does it instead.
func (d decision) withTaints(in incoming, k known, p policy.Policy) decision {
	final := make(map[string]string, len(in.labels)+len(d.restore.Add)+len(d.restore.Protected))
	maps.Copy(final, in.labels)
	maps.Copy(final, d.restore.Add)
	maps.Copy(final, d.restore.Protected)
	_, restored := record.Split(d.restore.Add)
	taken := slices.Concat(in.taints, restored)
	byRule := policy.FreeOf(p.TaintsFor(final), taken)
	once := policy.FreeOf(p.RegistrationTaints(final), taken)

	stamp := d.stampOf(in, k)
	d.stamp, d.derived = policy.Annotations(stamp, byRule, policy.AnnotationBytes(in.annotations))
	if d.stamp == "" && d.gatedAfter(in) {
		d.derived = ""
		return d
	}
	d.taints = slices.Concat(byRule, once)
	return d
}

// stampOf is what the stamp says of the object once the decision is carried out. Nothing is claimed of an object from
// which the record was kept.
func (d decision) stampOf(in incoming, k known) record.Stamp {
	if d.outcome == unreadableRecord || d.outcome == otherMachine {
		return record.Stamp{}
	}
	return record.Stamp{Brought: brought(in, k.record, d)}.With(d.restore.Add, 0)
}

// gatedAfter reports whether the object will carry the gate.
func (d decision) gatedAfter(in incoming) bool {
	return d.move == closeGate || d.move == leaveGate && d.gate.On(in.taints)
}

// bytes is how much the decision adds to the object, about.
func (d decision) bytes() int {
	size := len(d.stamp) + len(d.derived)
	for key, value := range d.restore.Add {
		size += len(key) + len(value)
	}
	for _, taint := range d.taints {
		size += len(taint.Key) + len(taint.Value) + len(taint.Effect)
	}
	return size
}

// withoutItems is the decision for a Node that has no room: nothing is claimed, and what is missing waits behind the gate.
func (d decision) withoutItems() decision {
	small := decision{outcome: tooLarge, gate: d.gate}
	if len(d.restore.Add)+len(d.restore.Protected)+len(d.taints) > 0 {
		small.move = closeGate
	}
	return small
}

// brought are the recorded keys that the Node has in its CREATE and keeps, with its own values: whichever of them is gone later was
// removed from this very object.
func brought(in incoming, r record.Record, d decision) map[string]string {
	var own map[string]string
	items := in.items()
	for _, e := range r.Entries {
		value, is := items[e.Key]
		if _, replaced := d.restore.Add[e.Key]; e.Removed || !is || replaced || d.gate.Is(record.Taint(e.Key, "")) {
			continue
		}
		if own == nil {
			own = map[string]string{}
		}
		own[e.Key] = value
	}
	return own
}

func outcomeOf(restore policy.Restore) outcome {
	switch {
	case len(restore.Protected) > 0:
		return deferredSome
	case len(restore.Add) > 0:
		return restoredAll
	default:
		return nothingMissing
	}
}
