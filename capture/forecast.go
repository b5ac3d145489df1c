package capture

import (
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

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

// DefaultSweepFraction is how many of all records a sweep collects at most, where capture is not told otherwise.
const DefaultSweepFraction = 0.1

// SweepsAtMost is how many of so many records a sweep collects at most.
func SweepsAtMost(fraction float64, records int) int { return atMost(fraction, records) }
