package webhook

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// known is what the store knows of the registering Node.
type known struct {
	record     store.Record // the zero Record where there is none
	unreadable bool         // there is one, but nothing may be taken from it
	current    bool         // the store is up to date, as far as it can tell
}

// decision is what to do with a registering Node.
type decision struct {
	restore policy.Restore
	taints  []corev1.Taint // beside the restored ones: what rules want, and what a new Node gets once
	gate    policy.Gate
	move    gateMove
	stamp   string // the annotation's new value; empty: the object must carry none
	shown   string // the same for the annotation that shows people the rules' taints
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
	case k.record.Quarantined != nil || p.Quarantines(in.machine, policy.Machine(k.record.Machine)):
		return decision{outcome: otherMachine, gate: p.Gate()}.withTaints(in, k, p)
	}
	restore := missing(in, k, p)
	d := decision{restore: restore, outcome: outcomeOf(restore), gate: p.Gate()}
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
		policy.Kept{Items: k.record.Remembered(), Machine: policy.Machine(k.record.Machine)}, in.occasion)
}

// withTaints completes a decision by the taints that follow from the labels which the Node will have, those that are
// still to come included, and by the stamp. A taint of the Node's own, or a restored one, is never doubled.
//
// What is put on without a stamp, nobody could tell from other taints later; so where the gate stays on an object that has
// no room for one, capture does it instead.
func (d decision) withTaints(in incoming, k known, p policy.Policy) decision {
	final := make(map[string]string, len(in.labels)+len(d.restore.Add)+len(d.restore.Protected))
	maps.Copy(final, in.labels)
	maps.Copy(final, d.restore.Add)
	maps.Copy(final, d.restore.Protected)
	_, restored := policy.Split(d.restore.Add)
	taken := slices.Concat(in.taints, restored)
	byRule := policy.FreeOf(p.TaintsFor(final), taken)
	once := policy.FreeOf(p.RegistrationTaints(final), taken)

	d.stamp = stampFor(in, d.stampOf(in, k, byRule))
	if d.stamp == "" && d.gatedAfter(in) {
		return d
	}
	d.taints = slices.Concat(byRule, once)
	if shown := policy.Shown(byRule); policy.RoomFor(policy.AnnotationBytes(in.annotations)+len(d.stamp), shown) {
		d.shown = shown
	}
	return d
}

// stampOf is what the stamp says of the object once the decision is carried out. Nothing is claimed of an object from
// which the record was kept.
func (d decision) stampOf(in incoming, k known, byRule []corev1.Taint) policy.Stamp {
	stamp := policy.NewStamp(nil, nil)
	if d.outcome != unreadableRecord && d.outcome != otherMachine {
		labels, taints := carried(in, k.record.Remembered(), d.restore)
		stamp = policy.NewStamp(labels, keysOf(d.restore.Protected)).Given(d.restore.Add)
		stamp.Brought = taints
	}
	if len(byRule) > 0 {
		stamp.RuleTaints = policy.Items(nil, byRule)
	}
	return stamp
}

// gatedAfter reports whether the object will carry the gate.
func (d decision) gatedAfter(in incoming) bool {
	return d.move == closeGate || d.move == leaveGate && d.gate.On(in.taints)
}

// bytes is how much the decision adds to the object, about.
func (d decision) bytes() int {
	size := len(d.stamp) + len(d.shown)
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

// carried lists what is remembered and what the Node brought itself: whichever of that is gone later was taken off this
// very object. The labels count whatever their values are; a taint counts only as it is remembered, for nobody could tell
// who changed it.
func carried(in incoming, remembered map[string]string, restore policy.Restore) (labels []string, taints map[string]string) {
	items := in.items()
	for item, value := range remembered {
		brought, is := items[item]
		_, replaced := restore.Add[item]
		switch {
		case !is:
		case !policy.IsTaint(item):
			labels = append(labels, item)
		case brought == value && !replaced:
			if taints == nil {
				taints = map[string]string{}
			}
			taints[item] = value
		}
	}
	return labels, taints
}

// stampFor is the annotation's value, or nothing where the annotations have no room for it.
func stampFor(in incoming, stamp policy.Stamp) string {
	if !stamp.Fits(policy.AnnotationBytes(in.annotations)) {
		return ""
	}
	return stamp.String()
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

// keysOf lists the keys of a map, sorted.
func keysOf(labels map[string]string) []string { return slices.Sorted(maps.Keys(labels)) }
