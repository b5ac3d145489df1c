package record

import (
	"cmp"
	"iter"
	"slices"
)

// Merge returns the record after one more observation. docs/design.md, section 5.2, has the clauses as a table.
//
// Observations of one object do not commute in three cases. In none of them can any process know what a client wanted.
//   - The newer state shows an item of owner [OtherOwner] that the stamp does not list. A kubelet or the policy hides a client's value.
//   - A client set a taint back to the listed value, and nodekeep mistook it for its own and corrected it.
//   - A client removed the annotation between the two.
func Merge(r Record, o Observation) Record {
	if o.Version <= r.Floor || o.ofMachineBefore(r) {
		return r.late(o)
	}
	last, newest := r.Observed(o.UID), r.Newest()
	late, presumed := o.Version < last, r.presumes(o.Version)
	unknown := r.Floor // what nodekeep gave from up to there cannot be adopted
	if o.follows(r) {
		unknown = o.Version
	}
	prev := r
	r = r.identify(o.UID, o.Version)
	next := r
	next.Entries = slices.Clone(r.Entries)
	for i, e := range next.Entries {
		if e.Version < o.Version || e.Version == o.Version && presumed {
			next.Entries[i] = decide(o, e, unknown, true, r.DecidedOn(e) == o.UID && !presumed, late)
		}
		if o.Version >= newest.Version {
			shown, present := o.Items[e.Key]
			next.Entries[i].NotShown = !next.Entries[i].Removed && (!present || shown.Owner == Absent || shown.Value != next.Entries[i].Value)
		}
	}
	for key := range o.keys() {
		if _, known := r.find(key); known {
			continue
		}
		if e := decide(o, Entry{Key: key}, unknown, false, false, late); e != (Entry{Key: key}) && Valid(key, e.Value) { // a stamp may list anything
			next.Entries = append(next.Entries, e)
		}
	}
	if len(next.Entries) > len(r.Entries) {
		slices.SortFunc(next.Entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	}
	for i, e := range next.Entries {
		old, _ := r.Entry(e.Key)
		next.Entries[i] = o.noteOwners(old, e, o.Version >= newest.Version)
	}
	next.see(o.UID, o.Version)
	for _, e := range next.Entries {
		if old, _ := r.Entry(e.Key); old.Version != e.Version && e.Version < o.Version && !e.Removed { // adopted
			next.presume(e.Version)
		}
	}
	next.markDeleted(prev, o)
	return next.bounded()
}

// decide returns the entry of a key after an observation that is newer than the entry. If here, this very object decided the entry. If late, a
// newer state of this object was merged before and did not change the entry. Up to the version unknown, the record cannot know what nodekeep gave
// from. Numbers and letters are those of the table in docs/design.md.
func decide(o Observation, e Entry, unknown Version, known, shownHere, late bool) Entry {
	set := func(value string, version Version) Entry { return Entry{Key: e.Key, Value: value, Version: version} }
	removed := func(version Version) Entry { return Entry{Key: e.Key, Removed: true, Version: version} }

	first, ruled := o.byRule(e.Key)
	switch item := o.Items[e.Key]; {
	case item.Owner == OtherOwner && ruled && shownHere && first < e.Version: // A: a client changed it after the rule had set it, and set it back
		return set(item.Value, o.Version)
	case item.Owner == Absent && ruled && shownHere && first < e.Version: // B: a client added it after the rule had removed it, and removed it
		return removed(o.Version)
	case item.Owner == OtherOwner || item.Owner == Absent:
		return e
	case item.Owner == TooLarge && known && !e.Removed:
		return removed(o.Version)
	case item.Owner == TooLarge:
		return e
	}
	value, shown := o.shows(e.Key)
	listed, confirmed := o.listed(e.Key)
	confirmed = confirmed && !o.Unconfirmed[e.Key]
	remembered := known && !e.Removed
	equal := shown && o.untouched(e.Key)
	taint := IsTaint(e.Key)
	changed := shownHere && listed.Version < e.Version && e.Value != listed.Value // a newer state that showed the listed value would have changed the entry

	switch {
	case o.unread(e): // 0: the client that wrote the list of taints had not read it
		return e
	case shown && !equal && !late: // 1: a client set it
		return set(value, o.Version)
	case late && !equal && confirmed && (taint || listed.Owners != "") && !changed: // 2: a client set it back to the listed value since
		return set(listed.Value, o.Version)
	case late && !equal && confirmed && shown: // 3: the kubelet's own value hides it since
		return set(value, o.Version)
	case shown && !equal && shownHere && remembered && (!taint || value == e.Value): // 4: the newer state hides it: had it lacked the item, the entry would be a removal
		return set(value, o.Version)
	case shown && !equal: // 5: a newer state of this object lacks it
		return removed(o.Version)
	case !shown && (confirmed || ruled && remembered): // 6: the object had it, and a client removed it
		return removed(o.Version)
	case equal && !confirmed && !late && (!known || shownHere || remembered && value == e.Value): // 7: the kubelet may claim a client's value for nodekeep
		return set(value, o.Version)
	case equal && !confirmed: // 8: it may come from a stale record
		return e
	case equal && shownHere && listed.Version < e.Version: // 9: a client set it back to the listed value
		return set(value, o.Version)
	case equal && shownHere && remembered && listed.Version >= e.Version: // 10: a client removed it, and a capture that was behind set it again
		return removed(listed.Version)
	case equal && o.outlives(e, known, unknown): // 11: the record that it was given from is lost, or an older one was put back
		return set(value, listed.From)
	case equal: // 12: nodekeep set it
		return e
	case !shown && shownHere && remembered: // 13: a client removed it
		return removed(o.Version)
	default: // 14: lost with an older object: to be restored
		return e
	}
}

// keys returns all keys that the observation says something about, each once.
func (o Observation) keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range o.Items {
			if !yield(key) {
				return
			}
		}
		for key := range o.Stamp.Given {
			if _, present := o.Items[key]; !present && !yield(key) {
				return
			}
		}
		for key := range o.Stamp.Brought {
			_, present := o.Items[key]
			if _, given := o.Stamp.Given[key]; !present && !given && !yield(key) {
				return
			}
		}
	}
}

// markDeleted notes that the newest object is deleted, or that a newer state or object is there.
func (r *Record) markDeleted(prev Record, o Observation) {
	if r.Newest().UID == o.UID && (o.Version > prev.Observed(o.UID) || r.DeletedAt.IsZero()) {
		r.DeletedAt = o.DeletedAt
	}
}
