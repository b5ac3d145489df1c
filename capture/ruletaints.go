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
	return seen.Stamp.ByRule(taint) && (p.RulesMake(taint) || liftedByUs(seen, p))
}

// intended is the record of a Node that lives, with what its rules are about to put on written down first: what is not
// written down is never taken off.
func intended(record store.Record, seen *Node, p policy.Policy) store.Record {
	if seen.deleting() {
		return record
	}
	changes := follow(seen.Taints, record.RuleTaints, p.TaintsFor(seen.Items))
	record.RuleTaints = slices.Concat(record.RuleTaints, changes.put)
	policy.SortTaints(record.RuleTaints)
	return record
}

// undated is a taint without the moment at which it was put on, which identifies nothing.
func undated(taint corev1.Taint) corev1.Taint {
	taint.TimeAdded = nil
	return taint
}
