package webhook

import (
	"maps"
	"slices"

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
	gate    policy.Gate
	move    gateMove
	stamp   string // the annotation's new value; empty: the object must carry none
	outcome outcome
}

type gateMove int

const (
	leaveGate gateMove = iota
	closeGate          // put the gate on unless it holds already
	liftGate           // take every copy of it off
)

// decide says what a registering Node gets. Nothing is restored from a record that cannot be read or that is another
// machine's, and a gate that is on the Node then stays on. A store that may have fallen behind restores what it knows but neither lifts nor stamps: both
// would claim that nothing else is missing.
func decide(in incoming, k known, p policy.Policy) decision {
	switch {
	case k.unreadable:
		return nothingRestored(in, k, p, unreadableRecord)
	case k.record.Quarantined != nil || p.Quarantines(in.machine, policy.Machine(k.record.Machine)):
		return nothingRestored(in, k, p, otherMachine)
	}
	remembered := k.record.Remembered()
	restore := missing(in, k, p)
	d := decision{restore: restore, outcome: outcomeOf(restore), gate: p.Gate()}
	if k.current {
		d.move = liftGate
		d.stamp = stampFor(in, policy.NewStamp(carried(in, remembered, restore), keysOf(restore.Protected)))
	}
	if len(restore.Protected) > 0 {
		d.move = closeGate
	}
	return d
}

// missing is what the registering Node lacks of what is remembered.
func missing(in incoming, k known, p policy.Policy) policy.Restore {
	return p.Missing(
		policy.Kept{Items: in.labels, Machine: in.machine},
		policy.Kept{Items: k.record.Remembered(), Machine: policy.Machine(k.record.Machine)}, in.occasion)
}

// nothingRestored leaves the gate as it is and claims nothing.
func nothingRestored(in incoming, k known, p policy.Policy, why outcome) decision {
	d := decision{outcome: why, gate: p.Gate()}
	if k.current {
		d.stamp = stampFor(in, policy.NewStamp(nil, nil))
	}
	return d
}

// bytes is how much the decision adds to the object, about.
func (d decision) bytes() int {
	size := len(d.stamp)
	for key, value := range d.restore.Add {
		size += len(key) + len(value)
	}
	return size
}

// withoutLabels is the decision for a Node that has no room: nothing is claimed, and what is missing waits behind the gate.
func (d decision) withoutLabels() decision {
	small := decision{outcome: tooLarge, gate: d.gate}
	if len(d.restore.Add)+len(d.restore.Protected) > 0 {
		small.move = closeGate
	}
	return small
}

// carried lists the remembered keys that the object will have when it is created: the restored ones, and those that the
// Node brought itself. Whichever of them is gone later was taken off this very object.
func carried(in incoming, remembered map[string]string, restore policy.Restore) []string {
	keys := slices.Collect(maps.Keys(restore.Add))
	for key := range remembered {
		if _, brought := in.labels[key]; brought {
			keys = append(keys, key)
		}
	}
	return keys
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
