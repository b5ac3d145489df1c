package integration

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// The record says which labels the Node has, a protected one among them; so nobody may ever see it without their taints.
func noWatcherSeesAKnownNodeWithoutItsTaints(t *testing.T) {
	const count = 200
	names := harness.Names("rules-known", count)
	labels := map[string]string{"dedicated": "ci", roleCI: ""}
	want := []string{"dedicated=ci:NoSchedule", "role=ci:NoExecute"}
	has := func(node *corev1.Node) bool { return harness.Carries(node, want[0]) && harness.Carries(node, want[1]) }
	eachNode(names, func(name string) {
		node := nodekeep.Register(t, name)
		nodekeep.Label(t, name, map[string]any{"dedicated": "ci", roleCI: ""})
		nodekeep.WaitRecorded(t, node, labels)
		nodekeep.DeleteNode(t, name)
	})
	seen, uncalled := nodekeep.WatchNodes(t), failedOpen(t)
	var first atomic.Int64
	eachNode(names, func(name string) {
		if has(nodekeep.Register(t, name)) {
			first.Add(1)
		}
	})
	for _, name := range names {
		node := nodekeep.WaitRestored(t, name, labels)
		require.Eventually(t, func() bool { return slices.Equal(ruleTaintsOf(t, name), want) }, settles, 10*time.Millisecond)
		assert.Equal(t, want, harness.TaintsOf(node))
	}
	seen.Stop()
	uncalled = failedOpen(t) - uncalled
	never := 0
	for _, name := range names {
		states := seen.Of(name)
		require.NotEmpty(t, states, name)
		assert.False(t, slices.ContainsFunc(states, func(s harness.State) bool { return !has(s.Node) && !policy.DefaultGate.Holds(s.Spec.Taints) }), name)
		if !slices.ContainsFunc(states, func(s harness.State) bool { return !has(s.Node) }) {
			never++
		}
	}
	t.Logf("%d of %d CREATEs answered with the taints; %d of %d Nodes were never seen without them", first.Load(), count, never, count)
	if uncalled > 0 {
		t.Logf("the API server gave up %d calls of the webhook, which a busy machine answers too late; those Nodes were gated", uncalled)
	}
	assert.GreaterOrEqual(t, int(first.Load())+uncalled, count)
	assert.GreaterOrEqual(t, never+uncalled, count)

	bare := bareControl(t, names[:5], has)
	t.Logf("control, without webhook and gate: %d of 5 Nodes were seen without them", bare)
	assert.Equal(t, 5, bare, "the watch would have shown it")
}

// failedOpen counts the calls of webhooks that the API server has given up so far, to go on without them.
func failedOpen(t *testing.T) int {
	return int(nodekeep.APIServerSeries(t).Sum("apiserver_admission_webhook_fail_open_count"))
}

// bareControl registers Nodes again with the webhook down and the gate switched off, waits until capture has made them right,
// and counts those that were seen otherwise before.
func bareControl(t *testing.T, names []string, right func(*corev1.Node) bool) (bare int) {
	t.Helper()
	nodekeep.WithoutWebhook(t, func() {
		withoutGate(t, func() {
			for _, name := range names {
				nodekeep.DeleteNode(t, name)
			}
			seen := nodekeep.WatchNodes(t)
			for _, name := range names {
				nodekeep.Register(t, name)
			}
			for _, name := range names {
				require.Eventually(t, func() bool { return right(nodekeep.Node(t, name)) }, settles, 10*time.Millisecond)
			}
			seen.Stop()
			for _, name := range names {
				if slices.ContainsFunc(seen.Of(name), func(s harness.State) bool { return !right(s.Node) && !policy.DefaultGate.On(s.Spec.Taints) }) {
					bare++
				}
			}
		})
	})
	return bare
}

// withoutGate does something while the gate policy is switched off; the webhook must be down.
func withoutGate(t *testing.T, do func()) {
	t.Helper()
	require.NoError(t, nodekeep.GateOff(t.Context()))
	defer func() {
		require.NoError(t, nodekeep.GateOn(context.WithoutCancel(t.Context())))
		nodekeep.WaitGating(t, true)
	}()
	nodekeep.WaitGating(t, false)
	do()
}
