package capture

import (
	"time"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// planIsolation: another machine has the name. What it shows is its own record; what was remembered is set aside whole.
func planIsolation(prev store.Record, seen *Node, event Event, p policy.Policy, now time.Time) Plan {
	own := remember(store.Record{Node: seen.Name}, seen, p)
	own.Quarantined = &prev
	if event == Deleted {
		own.DeletedAt = timestamp(now)
	}
	return Plan{Step: Isolate, Write: &own}
}

// planQuarantined: nothing is given and no gate is lifted before a person has decided. Meanwhile what the Node shows is
// recorded, and nothing that is remembered of either side is lost.
func planQuarantined(prev store.Record, seen *Node, event Event, p policy.Policy, now time.Time) Plan {
	if next, decided := Decided(prev); decided {
		return Plan{Step: Accept, Write: &next}
	}
	order := compareVersions(seen.ResourceVersion, prev.NodeResourceVersion)
	next := prev
	switch {
	case prev.UID == seen.UID && order >= 0:
		next = remember(prev, seen, p)
	case prev.UID != seen.UID && order > 0:
		next = mergeInto(prev, remember(flat(prev), seen, p), seen, given(seen))
	case event == Present || prev.UID != seen.UID:
		return Plan{Step: Nothing}
	}
	next.DeletedAt = nil
	if event == Deleted {
		next.DeletedAt = timestamp(now)
		if prev.DeletedAt != nil {
			next.DeletedAt = prev.DeletedAt
		}
	}
	if next.Same(prev) {
		return Plan{Step: Nothing}
	}
	return Plan{Step: stepFor(event), Write: &next}
}

// Decided carries out what a person has decided: the record of the side that is right, for the machine that has the name
// now. The other side is forgotten, but for what the Node itself shows.
func Decided(record store.Record) (accepted store.Record, decided bool) {
	if record.Quarantined == nil {
		return store.Record{}, false
	}
	switch record.Accepted {
	case store.OldMachine:
		accepted = *record.Quarantined
		accepted.Machine = record.Machine
	case store.NewMachine:
		accepted = record
	default:
		return store.Record{}, false
	}
	accepted.Quarantined, accepted.Accepted = nil, ""
	accepted.DeletedAt = record.DeletedAt
	return accepted, true
}
