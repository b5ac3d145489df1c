package local

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
)

// existing is policy.verify for a cluster whose Nodes exist already.
const existing = `{"profiles": [{"name": "all", "checks": [{"name": "api", "api": {}}],
	"timeout": "8s", "startTimeout": "30s", "attempts": {"max": 3, "backoff": "1s", "maxBackoff": "3s"}}]}`

// Three Nodes exist before verification is turned on. One command has all of them checked, and at each moment Pods find a place.
func TestThreeRealNodesThatExistAreTakenIntoVerificationWhileAlwaysOneTakesPods(t *testing.T) {
	c := forTest(t)
	names := []string{"node-1", "node-2", "node-3"}
	for _, name := range names {
		c.add(t, name)
	}
	c.installed(t, "--set", "verify.enabled=true,verify.replicas=1", "--set-json", "policy.verify="+existing)
	for _, name := range names {
		node := c.Node(t, name)
		require.False(t, unverified(node), "nothing closes a Node that exists")
		require.NotContains(t, node.Labels, verify.Label)
	}

	states := c.watches(t, metav1.ListOptions{})
	t.Log(c.nodekeep(t, "recheck", "--all", "--max", "34%", "--yes"))
	for _, name := range names {
		assert.Equal(t, 2, roundOf(c.opens(t, name)), "it was open, and was checked once")
	}
	takes, closed, limit := map[string]bool{}, map[string]bool{}, 0
	for _, name := range names {
		states.upTo(t, c.Node(t, name))
	}
	for i, node := range states.upTo(t, c.Node(t, names[0])) {
		verified := verify.NodeOf(node)
		takes[node.Name] = verify.TakesWorkloads(verified.Ready, node.Spec.Unschedulable, node.Spec.Taints)
		if delete(closed, node.Name); unverified(node) {
			closed[node.Name] = true
		}
		if limit = max(limit, len(closed)); i >= len(names) { // the first ones are the list
			assert.Contains(t, takesPods(takes), true, "version %s of node %s: no Node takes Pods", node.ResourceVersion, node.Name)
		}
	}
	assert.Equal(t, 1, limit, "a third of three Nodes")

	assert.Contains(t, c.nodekeep(t, "recheck", "--all", "--yes"), "3 passed these checks before")
	for _, name := range names {
		assert.Equal(t, 2, roundOf(c.Node(t, name)))
	}
}

func takesPods(takes map[string]bool) (values []bool) {
	for _, value := range takes {
		values = append(values, value)
	}
	return values
}
