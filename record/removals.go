package record

import (
	"cmp"
	"slices"
)

// What a record holds of removals at most. Clients can remove any number of keys from a Node, one after another.
const (
	MaxRemovals     = 256
	MaxRemovalBytes = 64 << 10 // of their keys
)

// bounded returns the record without the oldest removals, as far as they are too many. What was observed up to their versions does not count any
// more, so it cannot contradict them. That cannot go for versions that the entries of the newest object need. A removal that is dropped all the
// same can be contradicted by the last state of an older object.
func (r Record) bounded() Record {
	boundOwners(r.Entries)
	drop := r.removalsBeyond(MaxRemovals, MaxRemovalBytes)
	if len(drop) == 0 {
		return r
	}
	newest := r.Newest()
	floor, last := r.Floor, newest.Version
	for _, e := range r.Entries {
		if !e.Removed && r.DecidedOn(e) == newest.UID {
			last = min(last, e.Version)
		}
	}
	dropped := map[string]bool{}
	for _, e := range drop {
		dropped[e.Key] = true
		if e.Version < last {
			floor = max(floor, e.Version)
		}
	}
	r.Entries = slices.DeleteFunc(slices.Clone(r.Entries), func(e Entry) bool { return dropped[e.Key] })
	r.Seen = slices.DeleteFunc(slices.Clone(r.Seen), func(object Object) bool { return object.Version <= floor })
	r.forget(floor)
	return r
}

// removalsBeyond returns the oldest removals beyond a count, and beyond some bytes of their keys.
func (r Record) removalsBeyond(count, bytes int) (oldest []Entry) {
	left, size := 0, 0
	for _, e := range r.Entries {
		if e.Removed {
			left, size = left+1, size+len(e.Key)
		}
	}
	if left <= count && size <= bytes {
		return nil
	}
	removals := slices.DeleteFunc(slices.Clone(r.Entries), func(e Entry) bool { return !e.Removed })
	slices.SortFunc(removals, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Key, b.Key))
	})
	for i := 0; left > count || size > bytes; i++ {
		left, size = left-1, size-len(removals[i].Key)
		oldest = removals[:i+1]
	}
	return oldest
}
