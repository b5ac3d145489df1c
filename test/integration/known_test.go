package integration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
)

// The record says which labels the Node has, a protected one among them; so nobody may ever see it without their taints.
func noWatcherSeesAKnownNodeWithoutItsTaints(t *testing.T) {
	const count = 200
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("rules-known-%03d", n)
	}
	labels := map[string]string{"dedicated": "ci", roleCI: ""}
	want := []string{"dedicated=ci:NoSchedule", "role=ci:NoExecute"}
	has := func(node *corev1.Node) bool { return carries(node, want[0]) && carries(node, want[1]) }
	eachNode(names, func(name string) {
		node := register(t, name)
		label(t, name, map[string]any{"dedicated": "ci", roleCI: ""})
		remembers(t, node, labels)
		deleteNode(t, name)
	})
	seen, uncalled := watchSights(t), uncalledWebhooks(t)
	var first atomic.Int64
	eachNode(names, func(name string) {
		if has(register(t, name)) {
			first.Add(1)
		}
	})
	for _, name := range names {
		node := complete(t, name, labels)
		require.Eventually(t, func() bool { return slices.Equal(ruleTaintsOf(t, name), want) }, settles, 10*time.Millisecond)
		assert.Equal(t, want, taintsOf(node))
	}
	seen.stop()
	uncalled = uncalledWebhooks(t) - uncalled
	never := 0
	for _, name := range names {
		states := seen.of(name)
		require.NotEmpty(t, states, name)
		assert.False(t, slices.ContainsFunc(states, func(s sight) bool { return !has(s.node) && !policy.DefaultGate.Holds(s.node.Spec.Taints) }), name)
		if !slices.ContainsFunc(states, func(s sight) bool { return !has(s.node) }) {
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

// uncalledWebhooks is how many calls of webhooks the API server has given up so far, to go on without them.
func uncalledWebhooks(t *testing.T) (calls int) {
	t.Helper()
	body, err := nodekeep.Admin.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	require.NoError(t, err)
	for _, series := range failOpen.FindAllStringSubmatch(string(body), -1) {
		count, err := strconv.ParseFloat(series[1], 64)
		require.NoError(t, err)
		calls += int(count)
	}
	return calls
}

var failOpen = regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{.*\} (.*)$`)

// bareControl registers Nodes again with the webhook down and the gate switched off, waits until capture has made them right,
// and counts those that were seen otherwise before.
func bareControl(t *testing.T, names []string, right func(*corev1.Node) bool) (bare int) {
	t.Helper()
	withoutWebhook(t, func() {
		withoutGate(t, func() {
			for _, name := range names {
				deleteNode(t, name)
			}
			seen := watchSights(t)
			for _, name := range names {
				register(t, name)
			}
			for _, name := range names {
				require.Eventually(t, func() bool { return right(getNode(t, name)) }, settles, 10*time.Millisecond)
			}
			seen.stop()
			for _, name := range names {
				if slices.ContainsFunc(seen.of(name), func(s sight) bool { return !right(s.node) && !policy.DefaultGate.On(s.node.Spec.Taints) }) {
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
		gatedIs(t, "gate-on-again", true)
	}()
	gatedIs(t, "gate-off", false)
	do()
}
