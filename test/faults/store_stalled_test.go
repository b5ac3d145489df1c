package faults

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/proxy"
)

// The webhook hears nothing of records any more while the API server calls it as ever: its watch ends, and no other one is
// answered. It must come to know that it may be behind.
func TestAWebhookWhoseRecordsStallRestoresWhatItKnowsStampsItAndLeavesTheGate(t *testing.T) {
	if !longFaults(t) {
		return
	}
	const name, witness = "stalled", "stalled-witness"
	p, err := proxy.Start(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		p.Break(nil)
		require.NoError(t, nodekeep.StopWebhook())
		p.Stop()
		nodekeep.Route = nil
		require.NoError(t, nodekeep.StartWebhook(ctx))
	})
	require.NoError(t, nodekeep.StopWebhook())
	nodekeep.Route = func(process string, direct *rest.Config) *rest.Config {
		if process == "nodekeep-webhook" {
			return p.Through(direct)
		}
		return direct
	}
	require.NoError(t, nodekeep.StartWebhook(ctx))
	node := remembered(t, name, map[string]string{"changed": "old", "removed": "1", "kept": "1"})
	now := map[string]string{"changed": "new", "added": "1", "kept": "1"}
	// In a dry run, of a Node of which nothing is known. Without a stamp the webhook has not answered in time, which says nothing.
	shows := func(gate bool) func() bool {
		return func() bool {
			dry, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), registration(witness, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			_, answered := dry.Annotations[policy.StampAnnotation]
			return answered && gated(dry) == gate
		}
	}
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
		stamp, ok := policy.ParseStamp(back.Annotations[policy.StampAnnotation])
		assert.True(t, ok)
		assert.Equal(t, []string{"changed", "kept", "removed"}, stamp.Restored)
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
