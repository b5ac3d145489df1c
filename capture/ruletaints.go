package capture

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// ruleChanges is how a Node's taints differ from what the rules want.
type ruleChanges struct {
	put     []corev1.Taint
	take    []corev1.Taint // ours, and wanted no more
	foreign []corev1.Taint // wanted, but somebody else has that key and effect on the Node
}

// follow compares the taints of a Node, of which some are ours, with what the rules want.
func follow(taints, ours, want []corev1.Taint) (changes ruleChanges) {
	for _, taint := range ours {
		if !slices.Contains(want, taint) {
			changes.take = append(changes.take, taint)
		}
	}
	others := slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return slices.Contains(ours, undated(taint)) })
	for _, taint := range want {
		switch {
		case slices.Contains(ours, taint):
		case len(policy.FreeOf([]corev1.Taint{taint}, others)) == 0:
			changes.foreign = append(changes.foreign, taint)
		default:
			changes.put = append(changes.put, taint)
		}
	}
	return changes
}

// writtenDown is what may be put on: the record says already that it is ours. What a label that is given just now calls for
// is not, and waits until the next plan has written it down.
func (c ruleChanges) writtenDown(record store.Record) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(c.put), func(taint corev1.Taint) bool { return !slices.Contains(record.RuleTaints, taint) })
}

// after are the taints that are ours once the changes are made, of which put is what is put on.
func (c ruleChanges) after(ours, put []corev1.Taint) []corev1.Taint {
	left := slices.DeleteFunc(slices.Clone(ours), func(taint corev1.Taint) bool { return slices.Contains(c.take, taint) })
	left = append(left, put...)
	policy.SortTaints(left)
	return left
}

// ruleTaintsOn are those of the Node's taints that our rules put there, sorted.
func ruleTaintsOn(prev store.Record, seen *Node, p policy.Policy) (ours []corev1.Taint) {
	for _, taint := range seen.Taints {
		if taint = undated(taint); putByRule(prev, seen, taint, p) {
			ours = append(ours, taint)
		}
	}
	policy.SortTaints(ours)
	return ours
}

// putByRule reports whether a taint is ours: the record says so. On an object that the record is not of yet, what admission
// put on stands in the stamp. A kubelet could write that, so it counts only for what a rule makes and nobody else was ever
// seen to have put there: it can have nothing taken off that it could not have had anyway, by dropping the label.
func putByRule(prev store.Record, seen *Node, taint corev1.Taint, p policy.Policy) bool {
	if prev.UID == seen.UID || !seen.Stamped {
		return slices.Contains(prev.RuleTaints, taint)
	}
	if value, kept := prev.Remembered()[policy.TaintItem(taint)]; kept && value == taint.Value {
		return false
	}
	return seen.Stamp.ByRule(taint) && p.RulesMake(taint)
}

// intended is the record of a Node that lives, with what its rules are about to put on written down first: what is not
// written down is never taken off.
func intended(record store.Record, seen *Node, p policy.Policy) store.Record {
	if seen.deleting() {
		return record
	}
	return withRuleTaints(record, follow(seen.Taints, record.RuleTaints, p.TaintsFor(seen.Items)).put)
}

// withRuleTaints adds to what is ours. At the end of a Node object, where the last sight may not be the last state, that is
// all that was: what was about to be put on may be on its way.
func withRuleTaints(record store.Record, more []corev1.Taint) store.Record {
	record.RuleTaints = slices.Concat(record.RuleTaints, more)
	policy.SortTaints(record.RuleTaints)
	record.RuleTaints = slices.Compact(record.RuleTaints)
	return record
}

// strikesOut reports whether a rule's taint is not among ours any more. That is for a live look to say: the watch may be
// behind what we did ourselves, and a taint that is struck out too early would never be taken off.
func strikesOut(prev, next store.Record) bool {
	return slices.ContainsFunc(prev.RuleTaints, func(taint corev1.Taint) bool { return !slices.Contains(next.RuleTaints, taint) })
}

// undated is a taint without the moment at which it was put on, which identifies nothing.
func undated(taint corev1.Taint) corev1.Taint {
	taint.TimeAdded = nil
	return taint
}
