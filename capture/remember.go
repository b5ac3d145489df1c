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
	maps.Copy(kept, protectedStill(prev, seen, p))
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

// protectedStill are the recorded labels that no kubelet may set and that the Node shows. A kubelet can forge managedFields and ownership
// annotations of its Node, so these are no reason to stop recording such a label: its next edit would be lost.
func protectedStill(prev store.Record, seen *Node, p policy.Policy) map[string]string {
	still := map[string]string{}
	for item := range prev.Remembered() {
		value, shown := seen.Items[item]
		if keeps, _ := p.Keeps(item); keeps && shown && !policy.IsTaint(item) && !policy.AllowedForKubelet(item) {
			still[item] = value
		}
	}
	return still
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
	case removed(prev, seen, key):
		return "", false
	case had: // the policy keeps it no more, its owner changed, or it was refused
		return last, true
	default:
		return waiting, waits
	}
}

// removed reports whether the key was on this very object and is no more: somebody took it off.
func removed(prev store.Record, seen *Node, key string) bool {
	if _, shown := seen.Items[key]; shown {
		return false
	}
	_, was := prev.Items[key]
	return was && prev.UID == seen.UID || proved(seen, key)
}

// proved reports whether the stamp is to be believed that the item was on this object. Without the guard policies a kubelet can write
// stamps, so for labels and taints that it may not set or remove itself its word is not enough.
func proved(seen *Node, item string) bool {
	return seen.Stamp.Proves(item) || seen.Guarded && seen.Stamp.Lists(item)
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
		return listed && value != seen.Items[item] && proved(seen, item)
	default:
		return seen.Stamp.Lists(item) && p.OwnedByPeople(seen.Owners[item])
	}
}

// missing is what the policy would give this Node today, less what is known to be gone on purpose.
func missing(record store.Record, seen *Node, p policy.Policy) map[string]string {
	have := policy.Kept{Items: seen.Items, Machine: seen.Machine}
	restore := p.Missing(have, policy.Kept{Items: record.Remembered(), Machine: policy.Machine(record.Machine)}, policy.Live)
	for key := range restore.Add {
		if removed(record, seen, key) {
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
