package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// takesOver is how long it may take in a test until another replica does the work of a leader that died. It waits 3 s; what a busy machine adds
// is another matter.
const takesOver = 60 * time.Second

// A test of test/integration, TestAStandbyTakesOverWhenTheLeaderLeaves, has the polite case with fewer questions asked.
func TestAWarmStandbyTakesOverFromALeaderThatLeavesAndFromOneThatDies(t *testing.T) {
	const name = "leaderless"
	ctx := t.Context()
	first := nodekeep.MetricsURL("capture")
	leading := func(url string) bool { return series(t, url, "nodekeep_capture_leading") == 1 }
	require.Eventually(t, func() bool { return leading(first) }, settles, 20*time.Millisecond)
	process, second := secondCapture(t)
	remembered(t, name, map[string]string{"dedicated": "ci", worker: ""})
	require.False(t, leading(second), "the second is the standby")

	// afterwards is how long it takes, from now on, until an edit is recorded and a Node that registers anew is given what
	// waits for capture.
	afterwards := func(t *testing.T, edit string) (recorded, whole time.Duration) {
		started := time.Now()
		deleteNode(t, name)
		watched := watchNodes(t)
		node := register(t, name)
		assert.Equal(t, "ci", node.Labels["dedicated"], "the webhook restores what it may, whoever leads")
		assert.True(t, gated(node), "what it may not waits behind the gate")
		label(t, name, map[string]string{"edit": edit})
		want := map[string]string{"dedicated": "ci", worker: "", "edit": edit}
		require.True(t, within(takesOver, func() bool {
			node := getNode(t, name)
			return !gated(node) && hasAll(node.Labels, want)
		}), "a standby must take over and complete the Node")
		whole = time.Since(started)
		remembers(t, node, want)
		recorded = time.Since(started)
		neverLacking(t, watched(), node.UID, map[string]string{"dedicated": "ci", worker: ""}, nil)
		return recorded, whole
	}

	require.NoError(t, nodekeep.StopCapture())
	recorded, whole := afterwards(t, "1")
	require.Eventually(t, func() bool { return leading(second) }, takesOver, 50*time.Millisecond)
	t.Logf("behind a leader that leaves: a Node whole after %s, an edit recorded after %s", whole.Round(time.Millisecond), recorded.Round(time.Millisecond))

	require.NoError(t, nodekeep.StartCapture(ctx))
	require.False(t, leading(first), "the first is the standby now")
	require.NoError(t, process.Kill())
	recorded, whole = afterwards(t, "2")
	if leading(first) {
		t.Log("the Lease was taken over before the Node was whole")
	}
	t.Logf("behind a leader that dies: a Node whole after %s, an edit recorded after %s", whole.Round(time.Millisecond), recorded.Round(time.Millisecond))
	deleteNode(t, name)
}
