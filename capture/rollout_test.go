package capture

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	eventrecord "k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// ruled returns a leader under the default policy, which has no rules. Ten Nodes have a label of a rule from before. Nothing notes which rules were in force.
func ruled(t *testing.T, nodes int) *Controller {
	t.Helper()
	from := newCluster(t, tierRule)
	from.register(usualNode())
	require.Empty(t, from.leader().works())
	node, remembered := from.node(), from.record()
	require.Contains(t, remembered.RuleLabels, "tier")

	client := fake.NewClientset()
	records, err := store.NewConfigMaps(client, "nodekeep", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c, err := New(Options{
		Client: client, Records: records, Policy: policy.Default, Events: eventrecord.NewFakeRecorder(10), Guard: from.guard, Namespace: "nodekeep",
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Workers: 1, Now: from.now,
	})
	require.NoError(t, err)
	t.Cleanup(c.queue.ShutDown)
	for i := range nodes {
		node.Name = fmt.Sprintf("worker-%d", i)
		remembered.Node = node.Name
		_, err := records.Put(t.Context(), remembered, "")
		require.NoError(t, err)
		c.observations.observeLive(observe.CompactNodeOf(observe.FromNode(node)))
	}
	c.leading.Store(true)
	return c
}

func TestWithoutANoteOfTheRulesInForceNotEvenTheirEndIsTakenForGranted(t *testing.T) {
	c := ruled(t, 10)
	c.rollout.Check(t.Context())
	assert.True(t, c.rulesHeld(c.Policy()), "the labels of all Nodes would be removed")
	held, known := c.HeldRules()
	require.True(t, known)
	assert.Equal(t, &rollout.HeldRules{Hash: policy.NoRules, Nodes: 10}, held)

	empty := ruled(t, 0)
	empty.rollout.Check(t.Context())
	assert.False(t, empty.rulesHeld(empty.Policy()), "on a new cluster nothing is removed")
}
