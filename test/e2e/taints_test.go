//go:build e2e

package e2e

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// unverified is the registration taint of the suite's values.
const unverified = domain + "unverified=true:NoSchedule"

func putsTaintsOn(t *testing.T) {
	k := newKubelet(t, "taints")
	k.labels = map[string]string{domain + "verify": "yes"}
	node := k.register(t)
	require.True(t, harness.Carries(node, unverified), "a new Node that the policy selects is tainted from its first moment: %v", node.Spec.Taints)
	ours := domain + "dedicated=ci:NoSchedule"
	on.nodes.Label(t, k.name, map[string]any{domain + "dedicated": "ci"})
	whole(t, k.name, must{taints: []string{ours, unverified}})
	remembered(t, node, must{labels: map[string]string{domain + "dedicated": "ci"}})
	on.nodes.Untaint(t, k.name, unverified)

	on.nodes.DeleteNode(t, k.name)
	received(t, k, must{taints: []string{ours}})
	again := k.register(t)
	require.True(t, harness.Carries(again, ours), "the rule's taint is there with its label: %v", again.Spec.Taints)
	require.True(t, harness.Carries(again, unverified), "a new object has to be verified again: %v", again.Spec.Taints)

	on.nodes.Label(t, k.name, map[string]any{domain + "dedicated": nil})
	eventually(t, func() error {
		node, err := read(t, k.name)
		if err == nil && harness.Carries(node, ours) {
			err = errStillThere
		}
		if err == nil && !harness.Carries(node, unverified) {
			err = errors.New("the registration taint went too")
		}
		return err
	}, "the rule's taint must go with its label")
}
