package capture

import (
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// remember is the record after the Node was seen whole: its items as the policy keeps them, and beside them what was
// remembered and is not on the Node for a reason that is not a removal.
func remember(prev store.Record, seen *Node, p policy.Policy) store.Record {
	ruleTaints := ruleTaintsOn(prev, seen, p)
	kept := p.Keep(seen.metadata(ruleTaints)).Items
	withheld := map[string]string{}
	for key := range prev.Remembered() {
		if value, yes := withhold(prev, seen, key, kept, p); yes {
			withheld[key] = value
		}
	}
	for _, taint := range ruleTaints { // what was held for somebody's until its rule was known
		if slices.Contains(prev.RuleClaims, taint) {
			delete(withheld, policy.TaintItem(taint))
		}
	}
	next := prev
	next.UID, next.NodeResourceVersion, next.Early = seen.UID, seen.ResourceVersion, false
	next.Items, next.Withheld.Items, next.RuleTaints, next.RuleClaims = kept, withheld, ruleTaints, ruleClaimsOn(prev, seen, p)
	next.Machine = machineAfter(next, seen)
	return next
}

// machineAfter is the machine that a record is of once its Node was seen. While an isolation label is held back because the
// machine is not known to be the same, the record stays that of the machine which had the label: otherwise the next
// registration would find the machine it was held back from.
func machineAfter(record store.Record, seen *Node) store.Machine {
	for key := range record.Withheld.Items {
		if policy.IsNodeRestriction(key) {
			return record.Machine
		}
	}
	before := policy.Machine(record.Machine)
	if seen.Machine.Compare(before) == policy.OtherMachine {
		return store.Machine(seen.Machine)
	}
	return store.Machine(seen.Machine.Over(before))
}

// withhold says which value of a remembered key stays remembered beside what the Node shows.
func withhold(prev store.Record, seen *Node, key string, kept map[string]string, p policy.Policy) (value string, yes bool) {
	last, had := prev.Items[key]
	waiting, waits := prev.Withheld.Items[key]
	current, keptNow := kept[key]
	switch {
	case keptNow && had && current == last: // as it was: a value that lost to it stays where it is
		return waiting, waits && waiting != current
	case keptNow && edited(prev, seen, key, p):
		return "", false
	case keptNow && had: // a new object brought another value
		return last, true
	case keptNow:
		return waiting, waits && waiting != current
	case removed(prev, seen, key, p):
		return "", false
	case had: // the policy keeps it no more, its owner changed, or it was refused
		return last, true
	default:
		return waiting, waits
	}
}

// removed reports whether the key was on this very object and is no more: somebody took it off.
func removed(prev store.Record, seen *Node, key string, p policy.Policy) bool {
	if _, shown := seen.Items[key]; shown {
		return false
	}
	_, was := prev.Items[key]
	return was && prev.UID == seen.UID || proved(seen, key, p)
}

// proved reports whether the stamp is to be believed that the item was on this object. A kubelet can write stamps, so for
// what it may not set or take off itself its word is not enough.
func proved(seen *Node, item string, p policy.Policy) bool {
	return seen.Stamp.Proves(item) || liftedByUs(seen, p) && seen.Stamp.Lists(item)
}

// liftedByUs reports whether the Node went through our hands: no kubelet can lift the gate, so the stamp of an object that
// was born behind it and is not behind it any more is ours.
func liftedByUs(seen *Node, p policy.Policy) bool {
	return seen.BornGated && !p.Gate().On(seen.Taints)
}

// edited reports whether the value that the Node shows is somebody's decision on this very object, and not just what it
// came with: the same object showed another value before, or the stamp says that it was there, and since then somebody
// owns the label who does not set it by himself at every start, or the taint has another value.
func edited(prev store.Record, seen *Node, item string, p policy.Policy) bool {
	switch {
	case prev.UID == seen.UID:
		return true
	case policy.IsTaint(item):
		value, listed := seen.Stamp.TaintValue(item)
		return listed && value != seen.Items[item] && proved(seen, item, p)
	default:
		return seen.Stamp.Lists(item) && p.OwnedByPeople(seen.Owners[item])
	}
}

// missing is what the policy would give this Node today, less what is known to be gone on purpose.
func missing(record store.Record, seen *Node, p policy.Policy) map[string]string {
	have := policy.Kept{Items: seen.Items, Machine: seen.Machine}
	restore := p.Missing(have, policy.Kept{Items: record.Remembered(), Machine: policy.Machine(record.Machine)}, policy.Live)
	for key := range restore.Add {
		if removed(record, seen, key, p) {
			delete(restore.Add, key)
		}
	}
	return restore.Add
}

// stale finds what admission restored from a record that was not the newest: the stamp says that it was given, nobody owns
// or changed it since, and the record lacks it (takeBack) or has another value (putRight).
func stale(prev store.Record, seen *Node) (putRight map[string]string, takeBack []string) {
	remembered := prev.Remembered()
	putRight = map[string]string{}
	for item, shown := range untouched(seen) {
		switch value, known := remembered[item]; {
		case seen.Refused[item]:
		case policy.IsTaint(item) && !onceHeld(prev, policy.TaintOf(item, shown)):
			// The stamp is a claim, and no managedFields tell whose a taint is: only what was ours to restore is taken back.
		case !known:
			takeBack = append(takeBack, item)
		case value != shown:
			putRight[item] = value
		}
	}
	slices.Sort(takeBack)
	return putRight, takeBack
}

// untouched are the items that the Node was given, by its stamp, and that nobody has changed since.
func untouched(seen *Node) map[string]string {
	items := map[string]string{}
	for _, key := range seen.Stamp.Restored {
		if shown, present := seen.Items[key]; present && !policy.IsTaint(key) && len(seen.Owners[key]) == 0 {
			items[key] = shown
		}
	}
	for item, given := range seen.Stamp.Taints {
		if shown, present := seen.Items[item]; present && policy.IsTaint(item) && shown == given {
			items[item] = shown
		}
	}
	return items
}

// given are the items that the Node was given, by its stamp, and labels that nobody owns; nobody has changed them since. A
// webhook that is behind writes no stamp.
func given(seen *Node) map[string]string {
	items := untouched(seen)
	for item, shown := range seen.Items {
		if !policy.IsTaint(item) && len(seen.Owners[item]) == 0 {
			items[item] = shown
		}
	}
	return items
}

// withoutStale is the Node as it would be if nothing had been restored from a stale record.
func withoutStale(prev store.Record, seen *Node) *Node {
	putRight, takeBack := stale(prev, seen)
	if len(putRight) == 0 && len(takeBack) == 0 {
		return seen
	}
	right := *seen
	right.Items = Plan{PutRight: putRight, TakeBack: takeBack}.itemsOn(seen)
	return &right
}

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
func mergeInto(prev, next store.Record, seen *Node, gifts map[string]string, p policy.Policy) store.Record {
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
		case removed(flat(prev), seen, item, p) && !knownLater(prev, seen, item):
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
