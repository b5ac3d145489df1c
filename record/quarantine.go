package record

import (
	"cmp"
	"slices"
)

// Isolate returns the record of a machine that registered under the name of another one. It keeps the other machine's record next to it. Nothing
// is restored until an operator accepts a side. Observations up to the floor still count for the other machine. If the record is isolated already, what
// waits for the operator stays. The machine takes the place of the one that has the name. It has what it had itself, if it had the name before.
func Isolate(r Record, machine Machine, floor Version, k EarlierRetention) Record {
	if r.Quarantined != nil && !r.WholeRecordQuarantined() { // what waits since the machine before was followed is of that machine
		r = AcceptOld(r, Object{})
	}
	held, fresh := r, Record{Node: r.Node, Cluster: r.Cluster, Earlier: r.Earlier}
	if r.WholeRecordQuarantined() {
		held, fresh = *r.Quarantined, r
		fresh.Quarantined = nil
	}
	held.Earlier = nil
	next, found := Returned(fresh, machine, floor, k)
	if !found || next.Quarantined != nil || next.Followed != "" {
		next = SetAside(fresh, machine, floor, k)
	}
	next.Quarantined = &held
	return next
}

// AcceptNew returns the record once an operator has decided that the new machine keeps its own labels and taints. What another machine of this
// name had counts as removed. A process that was behind may have given it to the new one. No process gives what waits of a followed record.
func AcceptNew(r Record) Record {
	if !r.WholeRecordQuarantined() {
		r.Quarantined = nil
		return r
	}
	entries := slices.Clone(r.Entries)
	for _, e := range r.Quarantined.Entries {
		if _, known := r.Entry(e.Key); !known && e.Version > 0 {
			entries = append(entries, Entry{Key: e.Key, Removed: true, Version: e.Version})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	r.Entries, r.Quarantined = entries, nil
	return r
}

// AcceptOld returns the record after an operator's decision that the new machine gets the old one's record. The parameter live is the Node as it
// was read for this; zero if there is none. This state or a later one counts when it is observed next. Older states of any object do not
// count, so that none brings back what the operator has refused.
func AcceptOld(r Record, live Object) Record {
	if r.Quarantined == nil {
		return r
	}
	if !r.WholeRecordQuarantined() {
		return r.withQuarantined()
	}
	if live.Version < r.Newest().Version {
		live = r.Newest()
	}
	accepted := *r.Quarantined
	accepted.Earlier = r.Earlier
	accepted.Machine, accepted.MachineSince, accepted.RuleLabels, accepted.Marks, accepted.DeletedAt, accepted.Seen = r.Machine, r.MachineSince, r.RuleLabels, r.Marks, r.DeletedAt, nil
	if live.Version > 0 {
		accepted.Seen = []Object{live}
		accepted.Floor = live.Version - 1 // its removals stay: the live Node may have such a key from an older record
	}
	return accepted
}

// Release returns the record once the policy knows no quarantine any more. The machine that has the name gets the old one's record. What clients have
// decided on that machine since comes first.
func Release(r Record) Record {
	if !r.WholeRecordQuarantined() {
		return r
	}
	released := *r.Quarantined
	released.Earlier = r.Earlier
	released.Machine, released.MachineSince, released.RuleLabels, released.Marks, released.DeletedAt = r.Machine, r.MachineSince, r.RuleLabels, r.Marks, r.DeletedAt
	released.Seen, released.Floor = r.Seen, r.Floor
	entries := slices.Clone(r.Entries)
	for _, e := range r.Quarantined.Entries {
		if _, known := r.Entry(e.Key); !known {
			e.NotShown = !e.Removed
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	released.Entries = entries
	return released
}
