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

// writtenDown is what may be put on this state of the Node: the record says that it is ours, and tells of this very state. What
// a label that is given just now calls for waits until the next plan has written it down.
//
// This is what makes two captures at once safe, whatever rules they follow. A put applies to one state of the Node only, and a
// record of that state precedes it; a taint is struck out only by a sight of a later state without it. Whoever strikes it out
// has then seen what became of every put before, and makes every one that is still to come write the record first.
func (c ruleChanges) writtenDown(record store.Record, seen *Node) []corev1.Taint {
	if record.NodeResourceVersion != seen.ResourceVersion {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.put), func(taint corev1.Taint) bool { return !slices.Contains(record.RuleTaints, taint) })
}

// after are the taints that are ours once the changes are made, of which put is what is put on.
func (c ruleChanges) after(ours, put []corev1.Taint) []corev1.Taint {
	left := slices.DeleteFunc(slices.Clone(ours), func(taint corev1.Taint) bool { return slices.Contains(c.take, taint) })
	left = append(left, put...)
	policy.SortTaints(left)
	return left
}

// ruleTaintsOn are those of the Node's taints that our rules put there, sorted: the record says so. On an object that the
// record is not of yet, what admission put on stands in the stamp.
func ruleTaintsOn(prev store.Record, seen *Node, p policy.Policy) []corev1.Taint {
	return taintsWhere(seen, func(taint corev1.Taint) bool {
		if slices.Contains(prev.RuleTaints, taint) && (prev.UID == seen.UID || !seen.Stamped) {
			return true
		}
		return claimedForRules(prev, seen, taint) && p.RulesMake(taint)
	})
}

// ruleClaimsOn are those of the Node's taints of which it is said that rules put them there, and no rule that is known here
// makes them: the policy of the webhook may be newer, or older than this process. Sorted.
func ruleClaimsOn(prev store.Record, seen *Node, p policy.Policy) []corev1.Taint {
	return taintsWhere(seen, func(taint corev1.Taint) bool {
		ours := prev.UID == seen.UID && slices.Contains(prev.RuleTaints, taint)
		return !ours && claimedForRules(prev, seen, taint) && !p.RulesMake(taint)
	})
}

// claimedForRules reports whether admission is said to have put a taint on by a rule: by the record, or by the stamp of an
// object that the record is not of yet. A kubelet could write a stamp, so it counts for nothing that was ever seen to be
// somebody's, and has nothing taken off or forgotten but what a rule makes: what the kubelet could be rid of anyway, by
// dropping the label.
func claimedForRules(prev store.Record, seen *Node, taint corev1.Taint) bool {
	if slices.Contains(prev.RuleClaims, taint) {
		return true
	}
	value, kept := prev.Remembered()[policy.TaintItem(taint)]
	return prev.UID != seen.UID && seen.Stamped && seen.Stamp.ByRule(taint) && (!kept || value != taint.Value)
}

// taintsWhere are the Node's taints of which that is so, undated and sorted.
func taintsWhere(seen *Node, is func(corev1.Taint) bool) (some []corev1.Taint) {
	for _, taint := range seen.Taints {
		if taint = undated(taint); is(taint) {
			some = append(some, taint)
		}
	}
	policy.SortTaints(some)
	return some
}

// intended is the record of a Node that lives, with what its rules are about to put on written down first: what is not
// written down is never taken off.
func intended(record store.Record, seen *Node, p policy.Policy) store.Record {
	if seen.deleting() {
		return record
	}
	return withRuleTaints(record, follow(seen.Taints, record.RuleTaints, p.TaintsFor(seen.Items)).put)
}

// putsByRule reports whether rules are about to put a taint on.
func putsByRule(record store.Record, seen *Node, p policy.Policy) bool {
	return len(follow(seen.Taints, ruleTaintsOn(record, seen, p), p.TaintsFor(seen.Items)).put) > 0
}

// withRuleTaints adds to what is ours. At the end of a Node object, where the last sight may not be the last state, that is
// all that was: what was about to be put on may be on its way.
func withRuleTaints(record store.Record, more []corev1.Taint) store.Record {
	record.RuleTaints = slices.Concat(record.RuleTaints, more)
	policy.SortTaints(record.RuleTaints)
	record.RuleTaints = slices.Compact(record.RuleTaints)
	return record
}

// undated is a taint without the moment at which it was put on, which identifies nothing.
func undated(taint corev1.Taint) corev1.Taint {
	taint.TimeAdded = nil
	return taint
}

// RuleChanges is how the rules of a policy change the taints of a Node that is there, for tools that tell people: what they
// put on, what they take off, and what they cannot put on because somebody else has put on a taint of that key and effect. A
// policy that takes another's place must know what that one's rules made; see [policy.Policy.After]. A nil record is none.
func RuleChanges(record *store.Record, node *corev1.Node, p policy.Policy) (put, take, foreign []corev1.Taint) {
	seen := nodeOf(node)
	var prev store.Record
	if record != nil {
		prev = *record
	}
	changes := follow(seen.Taints, ruleTaintsOn(prev, seen, p), p.TaintsFor(seen.Items))
	return changes.put, changes.take, changes.foreign
}
