package record

import (
	"cmp"
	"slices"
)

// Rename is the record once what a client decided of the key from counts for the key to, and the record has nothing of from. shown says that
// the newest object shows the value under both keys, or under to alone: then it counts as decided there. Else it stays with the object on
// which it was decided, so that what was lost with that one is restored still.
//
// No observation of that object that was merged before counts against the new key: it would take the key, which the object did not
// show yet, for removed. changed is false where from has no value, or to another one.
func Rename(r Record, from, to string, shown bool) (renamed Record, changed bool) {
	old, known := r.Entry(from)
	e, taken := r.Entry(to)
	taken = taken && !e.Removed
	if !known || old.Removed || taken && e.Value != old.Value || r.Isolated() {
		return r, false
	}
	version := max(old.Version, r.Observed(r.decidedOn(old)))
	if shown {
		version = max(old.Version, r.Newest().Version)
	}
	if !taken {
		e = Entry{Key: to, Value: old.Value, Version: version, NotShown: !shown}
	}
	r.Entries = slices.DeleteFunc(slices.Clone(r.Entries), func(e Entry) bool { return e.Key == from || e.Key == to })
	r.Entries = append(r.Entries, e)
	if version > r.Floor {
		r.Entries = append(r.Entries, Entry{Key: from, Removed: true, Version: version})
	}
	slices.SortFunc(r.Entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return r, true
}
