package record

import (
	"cmp"
	"slices"
)

// Rename moves a client's decision from the key `from` to the key `to`; the record then has nothing of `from`. If shown, the newest object
// shows the value under both keys or only under `to`. Then the value counts as decided on that object. Otherwise it stays with the object
// on which it was decided. So a value that was lost with that object is still restored.
//
// No earlier observation of that object counts against the new key. The object did not show that key yet, so it would look removed. If
// `from` has no value, or `to` has another one, changed is false.
func Rename(r Record, from, to string, shown bool) (renamed Record, changed bool) {
	old, known := r.Entry(from)
	e, taken := r.Entry(to)
	taken = taken && !e.Removed
	if !known || old.Removed || taken && e.Value != old.Value || r.WholeRecordQuarantined() {
		return r, false
	}
	version := max(old.Version, r.Observed(r.DecidedOn(old)))
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
