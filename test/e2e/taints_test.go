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
	installed.nodes.Label(t, k.name, map[string]any{domain + "dedicated": "ci"})
	whole(t, k.name, requirer{taints: []string{ours, unverified}})
	remembered(t, node, requirer{labels: map[string]string{domain + "dedicated": "ci"}})
	installed.nodes.Untaint(t, k.name, unverified)

	installed.nodes.DeleteNode(t, k.name)
	received(t, k, requirer{taints: []string{ours}})
	reread := k.register(t)
	require.True(t, harness.Carries(reread, ours), "the rule's taint is there with its label: %v", reread.Spec.Taints)
	require.True(t, harness.Carries(reread, unverified), "a new object has to be verified again: %v", reread.Spec.Taints)

	installed.nodes.Label(t, k.name, map[string]any{domain + "dedicated": nil})
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
