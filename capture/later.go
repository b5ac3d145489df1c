package capture

import (
	"maps"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// fillIn adds what an older object showed at its end to a record that was first written at the deletion of a later one.
// What that one showed wins; the rest is withheld, and so given to the next.
func fillIn(prev store.Record, seen *Node, p policy.Policy) store.Record {
	filled := prev
	filled.Withheld.Items = maps.Clone(prev.Withheld.Items)
	for key, value := range p.Keep(seen.metadata(ruleTaintsOn(prev, seen, p))).Items {
		_, later := prev.Items[key]
		if _, known := prev.Later[key]; later || known {
			continue
		}
		if filled.Withheld.Items == nil {
			filled.Withheld.Items = map[string]string{}
		}
		filled.Withheld.Items[key] = value
	}
	return filled
}

// stillEarly is the record after another sight of the object at whose deletion it was first written. Until that object is
// gone, or has what an older one's end has added, such an end may come: what was taken off meanwhile is noted, so that it
// does not bring that back.
func stillEarly(prev, current store.Record, seen *Node, event Event, p policy.Policy) store.Record {
	current.Early = event == Present && (seen.deleting() || !whole(current, seen, p))
	current.Later, current.LaterVersions = cloned(prev.Later), cloned(prev.LaterVersions)
	for item := range prev.LaterVersions {
		if _, is := current.Items[item]; !knownLater(prev, seen, item) && (is || !current.Early) {
			delete(current.Later, item)
			delete(current.LaterVersions, item)
		}
	}
	remembered := current.Remembered()
	for item := range prev.Items {
		if _, is := remembered[item]; current.Early && !is && !knownLater(prev, seen, item) {
			current.Later[item], current.LaterVersions[item] = nil, seen.ResourceVersion
		}
	}
	return current
}

// flat is the record as if all that it tells of later objects had been seen on its own.
func flat(record store.Record) store.Record {
	record.Items, record.Later, record.LaterVersions = record.Shown(), nil, nil
	return record
}

// mergeInto adds what an object showed that was never whole to what is remembered; the object wins, unless what is
// remembered is of a later sight. The record stays that of the object on which the labels were last seen whole, and its
// labels stay that object's: its end, or that of one in between, may still be on its way to capture when the look at a
// deletion has this one already, and must count.
// gifts are the items that may have come from us, and that nobody has changed since.
func mergeInto(prev, next store.Record, seen *Node, gifts map[string]string) store.Record {
	merged := prev
	merged.Later, merged.LaterVersions = cloned(prev.Later), cloned(prev.LaterVersions)
	merged.Withheld.Items = cloned(next.Withheld.Items)
	note := func(item string, value *string) {
		merged.Later[item], merged.LaterVersions[item] = value, seen.ResourceVersion
	}
	shown := prev.Shown()
	for item, value := range next.Items {
		last, is := shown[item]
		waiting, waits := prev.Withheld.Items[item]
		_, ours := gifts[item]
		ours = ours && (is && last == value || !is && waits && waiting == value) // a stamp alone is a claim
		switch {
		case knownLater(prev, seen, item):
			if delete(merged.Withheld.Items, item); waits {
				merged.Withheld.Items[item] = waiting
			}
		case !ours:
			note(item, &value)
		case !is: // what we gave says nothing that the record did not: an older object's end may know better
			merged.Withheld.Items[item] = waiting
		}
	}
	for item := range shown {
		switch _, has := next.Items[item]; {
		case has:
		case removed(flat(prev), seen, item) && !knownLater(prev, seen, item):
			note(item, nil)
		default:
			delete(merged.Withheld.Items, item)
		}
	}
	return merged
}

func cloned[V any](of map[string]V) map[string]V {
	if of == nil {
		return map[string]V{}
	}
	return maps.Clone(of)
}

// knownLater reports whether the record tells of an item from a later sight than this one.
func knownLater(prev store.Record, seen *Node, item string) bool {
	version, known := prev.LaterVersions[item]
	return known && compareVersions(seen.ResourceVersion, version) < 0
}

// late reports whether the record tells of anything from a later sight than this one.
func late(prev store.Record, seen *Node) bool {
	for item := range prev.LaterVersions {
		if knownLater(prev, seen, item) {
			return true
		}
	}
	return false
}
