package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/test/harness"
)

// takesOver is how long it may take in a test until another replica does the work of a leader that died. It waits 3 s; what a busy machine adds
// is another matter.
const takesOver = 60 * time.Second

// A test of test/integration, TestAStandbyTakesOverWhenTheLeaderLeaves, has the polite case with fewer questions asked.
func TestAWarmStandbyTakesOverFromALeaderThatLeavesAndFromOneThatDies(t *testing.T) {
	const name = "leaderless"
	captureWith(t, nodekeep.Route) // with a Lease
	first := nodekeep.MetricsURL("capture")
	leading := func(url string) bool { return harness.Series(t, url, "nodekeep_capture_leading") == 1 }
	require.Eventually(t, func() bool { return leading(first) }, harness.Settles, 20*time.Millisecond)
	replica := nodekeep.StartReplica(t, "capture").UntilReady(t)
	second := replica.Metrics
	nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci", worker: ""})
	require.False(t, leading(second), "the second is the standby")

	// afterwards is how long it takes, from now on, until an edit is recorded and a Node that registers anew is given what
	// waits for capture.
	afterwards := func(t *testing.T, edit string) (recorded, whole time.Duration) {
		started := time.Now()
		nodekeep.DeleteNode(t, name)
		watcher := nodekeep.WatchNodes(t)
		node := nodekeep.Register(t, name)
		assert.Equal(t, "ci", node.Labels["dedicated"], "the webhook restores what it may, whoever leads")
		assert.True(t, harness.Gated(node), "what it may not waits behind the gate")
		nodekeep.Label(t, name, map[string]string{"edit": edit})
		want := map[string]string{"dedicated": "ci", worker: "", "edit": edit}
		require.Eventually(t, func() bool {
			node := nodekeep.Node(t, name)
			return !harness.Gated(node) && harness.HasAll(node.Labels, want)
		}, takesOver, 20*time.Millisecond, "a standby must take over and complete the Node")
		whole = time.Since(started)
		nodekeep.WaitRecorded(t, node, want)
		recorded = time.Since(started)
		neverBare(t, watcher.Stop(), map[string]map[string]string{string(node.UID): map[string]string{"dedicated": "ci", worker: ""}})
		return recorded, whole
	}

	require.NoError(t, nodekeep.StopCapture())
	recorded, whole := afterwards(t, "1")
	require.Eventually(t, func() bool { return leading(second) }, takesOver, 50*time.Millisecond)
	t.Logf("behind a leader that leaves: a Node whole after %s, an edit recorded after %s", whole.Round(time.Millisecond), recorded.Round(time.Millisecond))

	require.NoError(t, nodekeep.StartCapture(t.Context()))
	require.False(t, leading(first), "the first is the standby now")
	require.NoError(t, replica.Process.Kill())
	recorded, whole = afterwards(t, "2")
	if leading(first) {
		t.Log("the Lease was taken over before the Node was whole")
	}
	t.Logf("behind a leader that dies: a Node whole after %s, an edit recorded after %s", whole.Round(time.Millisecond), recorded.Round(time.Millisecond))
	nodekeep.DeleteNode(t, name)
}

// The times in a Lease are another machine's. Whoever waits counts from when it saw the Lease change, by its own clock.
func TestALeaseOfAHolderWhoseClockIsAnHourOffIsTakenOverLikeAnyOther(t *testing.T) {
	takesMinutes(t)
	leases := nodekeep.Admin.CoordinationV1().Leases(harness.Namespace)
	for name, off := range map[string]time.Duration{"an hour ahead": time.Hour, "an hour behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			leads := func() {
				t.Helper()
				require.Eventually(t, func() bool {
					return captureSeries(t, "nodekeep_capture_leading") == 1
				}, 2*harness.Settles, 20*time.Millisecond)
			}
			leads() // so there is a Lease
			require.NoError(t, nodekeep.StopCapture())
			lease, err := leases.Get(t.Context(), capture.LeaseName, metav1.GetOptions{})
			require.NoError(t, err)
			holder, at, seconds := "skewed", metav1.NewMicroTime(time.Now().Add(off)), int32(15)
			lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.AcquireTime, lease.Spec.LeaseDurationSeconds = &holder, &at, &at, &seconds
			_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
			require.NoError(t, err)
			started := time.Now()
			require.NoError(t, nodekeep.StartCapture(t.Context()))
			leads()
			took := time.Since(started)
			t.Logf("taken over %s after the last sign of the holder", took.Round(time.Millisecond))
			assert.Greater(t, took, 10*time.Second, "a holder that is alive must not be robbed because its clock is behind")
			assert.Less(t, took, takesOver, "nor a dead one be waited for because its clock is ahead")
		})
	}
}
