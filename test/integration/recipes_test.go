package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// The recipes of docs/platforms.md, without the controllers that they are for: test/integration/controllers runs those.

// karpenterRules is the NodePolicy of the recipe for Karpenter.
func karpenterRules(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "platforms.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Karpenter\n")
	require.True(t, found)
	_, spec, found := strings.Cut(section, "\n---\nspec: # of the NodePolicy")
	require.True(t, found)
	spec, _, _ = strings.Cut(spec, "\n```")
	return "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec: #" + spec + "\n"
}

func TestTheRulesOfARecipeChangeEveryNodeOfANodePoolInPlace(t *testing.T) {
	shipped := nodekeep.Policy(t)
	const pool = "karpenter.sh/nodepool"
	own := map[string]string{pool: "general", "example.com/tier": "general"}
	nodekeep.RegisterNode(t, harness.RegistrationWith("in-pool-1", own))
	nodekeep.RegisterNode(t, harness.RegistrationWith("in-pool-2", map[string]string{pool: "other", "example.com/tier": "general"}))

	nodekeep.SetPolicy(t, karpenterRules(t))
	defer nodekeep.SetPolicy(t, shipped)
	acceptRules(t)
	harness.Eventually(t, func() bool {
		node := nodekeep.Node(t, "in-pool-1")
		return node.Labels["example.com/tier"] == "batch" && harness.Carries(node, "example.com/batch:NoSchedule")
	}, settles, 50*time.Millisecond)
	other := nodekeep.Node(t, "in-pool-2")
	assert.Equal(t, "general", other.Labels["example.com/tier"])
	assert.False(t, harness.Carries(other, "example.com/batch:NoSchedule"))

	nodekeep.RulesInForce(t)
	created := nodekeep.RegisterNode(t, harness.RegistrationWith("in-pool-3", own)) // with the labels of a template that nobody has changed
	assert.Equal(t, "batch", created.Labels["example.com/tier"], "in the CREATE")
	assert.True(t, harness.Carries(created, "example.com/batch:NoSchedule"), "in the CREATE")
}

func TestTheLabelsOfATopologyAreInTheCreateOfANodeThatReturns(t *testing.T) {
	levels := map[string]string{"cloud.provider.com/topology-block": "b1", "cloud.provider.com/topology-rack": "r1"}
	nodekeep.RegisterRecorded(t, "in-rack-1", levels)
	nodekeep.DeleteNode(t, "in-rack-1")
	nodekeep.WaitDeletionRecorded(t, "in-rack-1")

	watcher := nodekeep.WatchNodes(t)
	created := nodekeep.Register(t, "in-rack-1")
	assert.True(t, harness.HasAll(created.Labels, levels), "the kubelet's CREATE is answered with them: %v", created.Labels)
	watcher.Stop()
	first := watcher.States("in-rack-1")[0]
	assert.Equal(t, created.ResourceVersion, first.ResourceVersion)
	assert.True(t, harness.HasAll(first.Labels, levels), "the first event of the Node has them")
}
