package faults

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// webhookThrough has the webhook reach the API server through a proxy for the rest of the test.
func webhookThrough(t testing.TB) *proxy.Proxy {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	p, err := proxy.Start(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	route := nodekeep.Route
	t.Cleanup(func() {
		p.Break(nil)
		require.NoError(t, nodekeep.StopWebhook())
		p.Stop()
		nodekeep.Route = route
		require.NoError(t, nodekeep.StartWebhook(ctx))
	})
	require.NoError(t, nodekeep.StopWebhook())
	nodekeep.Route = func(process string, direct *rest.Config) *rest.Config {
		switch {
		case process == "nodekeep-webhook":
			return p.Through(direct)
		case route != nil:
			return route(process, direct)
		}
		return direct
	}
	require.NoError(t, nodekeep.StartWebhook(ctx))
	return p
}

// answersWithGate registers a Node of which nothing is known, in a dry run, and reports whether the webhook answered and the gate
// is as wanted. Without a stamp the webhook has not answered in time, which shows nothing.
func answersWithGate(t testing.TB, name string, gate bool) bool {
	t.Helper()
	dry, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	_, answered := dry.Annotations[policy.StampAnnotation]
	return answered && gated(dry) == gate
}

// The webhook hears nothing of records any more while the API server calls it as ever: its watch ends, and no other one is
// answered. It must come to know that it may be behind.
func TestAWebhookWhoseRecordsStallRestoresWhatItKnowsStampsItAndLeavesTheGate(t *testing.T) {
	if !longFaults(t) {
		return
	}
	const name, witness = "stalled", "stalled-witness"
	p := webhookThrough(t)
	node := remembered(t, name, map[string]string{"changed": "old", "removed": "1", "kept": "1"})
	now := map[string]string{"changed": "new", "added": "1", "kept": "1"}
	shows := func(gate bool) func() bool { return func() bool { return answersWithGate(t, witness, gate) } }
	lifts, leaves := shows(false), shows(true)
	require.Eventually(t, lifts, settles, 50*time.Millisecond)

	p.Break(proxy.Hang(proxy.Reads("configmaps"), 10*time.Minute))
	p.CutConnections()
	started := time.Now()
	label(t, name, map[string]string{"changed": "new", "added": "1"})
	unlabel(t, name, "removed")
	remembers(t, node, now)
	deleteNode(t, name)
	early := time.Now()
	assert.False(t, gated(register(t, name)), "it cannot know yet that it is behind: this is the window")
	assert.Eventually(t, func() bool {
		return hasAll(labelsOfPeople(getNode(t, name)), now) && len(labelsOfPeople(getNode(t, name))) == len(now)
	}, settles, 5*time.Millisecond, "capture puts right what was stale")
	window := time.Since(early)
	remembers(t, getNode(t, name), now)
	deleteNode(t, name)
	require.True(t, within(3*time.Minute, leaves), "the webhook must notice")
	noticed := time.Since(started)

	var back *corev1.Node
	withoutCapture(t, func() {
		back = register(t, name)
		assert.True(t, hasAll(back.Labels, map[string]string{"changed": "old", "removed": "1", "kept": "1"}), "it restores what it knows: %v", back.Labels)
		assert.True(t, gated(getNode(t, name)), "and does not claim that nothing is missing")
		stamp, ok := record.ParseStamp(back.Annotations[policy.StampAnnotation])
		assert.True(t, ok)
		assert.Equal(t, []string{"changed", "kept", "removed"}, slices.Sorted(maps.Keys(stamp.Given)))
	})
	started = time.Now()
	assert.Equal(t, now, labelsOfPeople(complete(t, name, now)), "capture puts right what was stale")
	remembers(t, getNode(t, name), now)
	right := time.Since(started)

	p.Break(nil)
	p.CutConnections()
	started = time.Now()
	require.Eventually(t, lifts, settles, 20*time.Millisecond)
	t.Logf("while the webhook did not know yet that it was behind, a Node showed what was stale for %s", window.Round(time.Millisecond))
	t.Logf("no longer sure %s after the watch had stalled; a stale Node put right %s after capture could; sure again %s after the stall",
		noticed.Round(time.Second), right.Round(time.Millisecond), time.Since(started).Round(time.Millisecond))
	deleteNode(t, name)
}

// An API server, or something in between, accepts each watch of records, sends nothing on it and ends it in time.
func TestAWebhookWhoseWatchesAreAcceptedAndBringNothingLeavesTheGate(t *testing.T) {
	if !longFaults(t) {
		return
	}
	const name = "mute-witness"
	p := webhookThrough(t)
	require.Eventually(t, func() bool { return answersWithGate(t, name, false) }, settles, 50*time.Millisecond)
	p.Break(proxy.Mute(proxy.Watches("configmaps"), 40*time.Second))
	p.CutConnections()
	started := time.Now()
	require.True(t, within(4*time.Minute, func() bool { return answersWithGate(t, name, true) }), "the webhook must notice that nothing arrives")
	noticed := time.Since(started)
	p.Break(nil)
	p.CutConnections()
	started = time.Now()
	require.True(t, within(3*time.Minute, func() bool { return answersWithGate(t, name, false) }), "a bookmark shows that the records are current")
	t.Logf("the webhook left the gate on %s after the last event, and lifted it again %s after watches brought something", noticed.Round(time.Second), time.Since(started).Round(time.Second))
}
