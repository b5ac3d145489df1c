package capture

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Next is the step that the controller takes on the sight of a Node that is there, for tools that tell people. What only
// the controller knows, which items the API server has refused, is not counted. guarded says that the guard
// policies are in force; a nil record, that there is none.
func Next(record *store.Record, node *corev1.Node, guarded bool, p policy.Policy, now time.Time) Plan {
	return plan(record, nodeOf(node).withGuards(guarded), Present, p, now)
}

// Metadata is what the policy looks at when the controller records the Node.
func Metadata(record *store.Record, node *corev1.Node, p policy.Policy) policy.Metadata {
	seen := nodeOf(node)
	var prev store.Record
	if record != nil {
		prev = *record
	}
	return seen.metadata(ruleTaintsOn(prev, seen, p))
}

// PatchFor is the body of a merge patch that carries out a plan on exactly that state of the Node.
func PatchFor(node *corev1.Node, step Plan, p policy.Policy) ([]byte, error) {
	return patchFor(nodeOf(node), step, p.Gate())
}
