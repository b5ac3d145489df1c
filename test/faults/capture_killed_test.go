package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// stop is where capture is killed: before or after the API server has carried out the number'th write of a kind.
type stop struct {
	kind   string
	writes proxy.Match
	moment proxy.Moment
	number int64
}

func (s stop) String() string {
	moment := "before"
	if s.moment == proxy.AfterResponse {
		moment = "after"
	}
	return fmt.Sprintf("%s %s write %d", moment, s.kind, s.number)
}

// killedAtEveryWrite lets something happen to a Node, first undisturbed, and then again and again on other Nodes with
// capture killed at each of its writes. The end must be the same each time. prepare makes the Node; happen lets it happen;
// is reports whether all of it is over.
func killedAtEveryWrite(t *testing.T, p *proxy.Proxy, prefix string, prepare, happen func(name string), current func(name string) bool) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	undisturbed := prefix + "-undisturbed"
	prepare(undisturbed)
	defer nodekeep.DeleteNode(t, undisturbed)
	happen(undisturbed)
	want := quiet(t, undisturbed, time.Second, func() bool { return current(undisturbed) && recordedAlive(t, undisturbed) })

	var kills int
	var longest time.Duration
	for _, s := range []stop{
		{kind: "node", writes: proxy.NodeWrites, moment: proxy.BeforeRequest}, {kind: "node", writes: proxy.NodeWrites, moment: proxy.AfterResponse},
		{kind: "record", writes: proxy.RecordWrites, moment: proxy.BeforeRequest}, {kind: "record", writes: proxy.RecordWrites, moment: proxy.AfterResponse},
	} {
		for s.number = 1; ; s.number++ {
			require.Less(t, s.number, int64(20), "capture goes on writing for ever")
			name := fmt.Sprintf("%s-%s-%d-%d", prefix, s.kind, s.moment, s.number)
			prepare(name)
			defer nodekeep.DeleteNode(t, name) // when all is over: more work for capture is no part of this
			reached := make(chan struct{})
			p.Break(proxy.Hold(proxy.About(name, s.writes), s.number, s.moment, func(*http.Request) { close(reached) }))
			happen(name)
			held := reachedOrOver(t, reached, func() bool { return endState(t, name) == want })
			if held {
				killCapture(t)
			}
			p.Break(nil)
			if !held {
				break
			}
			kills++
			started := time.Now()
			require.NoError(t, nodekeep.StartCapture(ctx))
			if !harness.Becomes(func() bool { return endState(t, name) == want }, harness.Settles, 10*time.Millisecond) {
				t.Errorf("killed %s, node %s must end like an undisturbed one:\n%s\nbut ends:\n%s", s, name, want, endState(t, name))
			}
			longest = max(longest, time.Since(started))
		}
	}
	require.GreaterOrEqual(t, kills, 4, "every run has writes of both kinds")
	t.Logf("capture was killed at %d moments; from its next start on it took %s at most until all was as in an undisturbed run", kills, longest.Round(time.Millisecond))
}

// recordedAlive reports whether the record is that of the Node object as it lives: it may be the last thing that capture writes.
func recordedAlive(t *testing.T, name string) bool {
	t.Helper()
	record, ok := nodekeep.Record(t, name)
	return ok && record.Newest().UID == nodekeep.Node(t, name).UID && record.DeletedAt.IsZero()
}

// reachedOrOver waits until capture is held, or until all is over without that.
func reachedOrOver(t *testing.T, reached <-chan struct{}, ended func() bool) (held bool) {
	t.Helper()
	start := time.Time{}
	for deadline := time.Now().Add(harness.Settles); time.Now().Before(deadline); {
		select {
		case <-reached:
			return true
		case <-time.After(10 * time.Millisecond):
		}
		switch {
		case !ended():
			start = time.Time{}
		case start.IsZero():
			start = time.Now()
		case time.Since(start) > time.Second: // the word of the last write may come after its effect
			return false
		}
	}
	require.Fail(t, "capture neither reaches the write nor comes to an end")
	return false
}

func TestCaptureKilledAtAnyWriteOfARestoreEndsAsIfItHadNotBeenKilled(t *testing.T) {
	labels := map[string]string{"lane": "ci", "example.com/verify": "yes", worker: ""}
	taints := []string{"lane=ci:NoSchedule", "maintenance=disk:NoExecute", "node-ready/unverified=true:NoSchedule"}
	p := captureProxy(t)
	nodekeep.WithoutWebhook(t, func() { // so that capture does it all
		registered := map[string]map[string]string{}
		watcher := nodekeep.WatchNodes(t)
		killedAtEveryWrite(t, p, "give-back", func(name string) {
			nodekeep.Register(t, name)
			nodekeep.WaitRestored(t, name, nil) // or it would get the registration taint already now
			nodekeep.Label(t, name, labels)
			nodekeep.Taint(t, name, "maintenance=disk:NoExecute")
			harness.Eventually(t, func() bool {
				record, ok := nodekeep.Record(t, name)
				return ok && len(record.Items()) == len(labels)+1 && len(derivedOf(nodekeep.Node(t, name))) == 1 && slices.Equal(harness.TaintsOf(nodekeep.Node(t, name)), taints[:2])
			}, harness.Settles, 10*time.Millisecond)
		}, func(name string) {
			nodekeep.DeleteNode(t, name)
			registered[string(nodekeep.Register(t, name).UID)] = labels
		}, func(name string) bool {
			node := nodekeep.Node(t, name)
			return !harness.Gated(node) && slices.Equal(harness.TaintsOf(node), taints)
		})
		neverSchedulableWithout(t, watcher.Stop(), registered, taints...)
		t.Logf("none of %d registrations was ever schedulable while it lacked a label, a kept taint, a rule's taint or a registration taint", len(registered))
	})
}

func TestCaptureKilledAtAnyWriteWhileATaintFollowsALabelEndsAsIfItHadNotBeenKilled(t *testing.T) {
	p := captureProxy(t)
	carries := func(want ...string) func(name string) bool {
		return func(name string) bool {
			_, ok := nodekeep.Record(t, name)
			return slices.Equal(harness.TaintsOf(nodekeep.Node(t, name)), want) && ok && len(derivedOf(nodekeep.Node(t, name))) == len(want)-1
		}
	}
	prepared := func(name string) {
		nodekeep.Register(t, name)
		nodekeep.Taint(t, name, "admins=1:NoExecute")
		nodekeep.Label(t, name, map[string]string{"lane": "ci"})
		require.Eventually(t, func() bool { return carries("admins=1:NoExecute", "lane=ci:NoSchedule")(name) }, harness.Settles, 10*time.Millisecond)
	}
	for _, c := range []struct {
		name, prefix    string
		prepare, happen func(name string)
		holds           func(name string) bool
	}{
		{"the first record is written", "first-record", func(name string) {
			nodekeep.Register(t, name)
			nodekeep.WaitRestored(t, name, nil)
		}, func(name string) { nodekeep.Label(t, name, map[string]string{"lane": "ci"}) }, func(name string) bool {
			record, ok := nodekeep.Record(t, name)
			return ok && record.Items()["lane"] == "ci" && len(derivedOf(nodekeep.Node(t, name))) == 1 && slices.Equal(harness.TaintsOf(nodekeep.Node(t, name)), []string{"lane=ci:NoSchedule"})
		}},
		{"the label is set", "label-set", func(name string) {
			nodekeep.Register(t, name)
			nodekeep.Taint(t, name, "admins=1:NoExecute")
			require.Eventually(t, func() bool { return carries("admins=1:NoExecute")(name) }, harness.Settles, 10*time.Millisecond)
		}, func(name string) { nodekeep.Label(t, name, map[string]string{"lane": "ci"}) }, carries("admins=1:NoExecute", "lane=ci:NoSchedule")},
		{"the label is changed", "label-changed", prepared,
			func(name string) { nodekeep.Label(t, name, map[string]string{"lane": "gpu"}) }, carries("admins=1:NoExecute", "lane=gpu:NoSchedule")},
		{"the label is removed", "label-removed", prepared,
			func(name string) { nodekeep.Label(t, name, map[string]any{"lane": nil}) }, carries("admins=1:NoExecute")},
	} {
		t.Run(c.name, func(t *testing.T) { killedAtEveryWrite(t, p, c.prefix, c.prepare, c.happen, c.holds) })
	}
}

// takesOver is how long it may take in a test until another replica does the work of a leader that died. It waits 3 s; what a busy machine adds
// is another matter.
const takesOver = harness.Settles

// A test of test/integration, TestAStandbyTakesOverWhenTheLeaderLeaves, has the polite case with fewer questions asked.
func TestAWarmStandbyTakesOverFromALeaderThatLeavesAndFromOneThatDies(t *testing.T) {
	const name = "leaderless"
	captureWith(t, nodekeep.Route) // with a Lease
	first := nodekeep.MetricsURL("capture")
	leading := func(url string) bool { return harness.Series(t, url, "nodekeep_controller_leading") == 1 }
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
		assert.Equal(t, "ci", node.Labels["dedicated"], "the webhook restores what it may, whichever replica leads")
		assert.True(t, harness.Gated(node), "what it may not waits behind the gate")
		nodekeep.Label(t, name, map[string]string{"edit": edit})
		want := map[string]string{"dedicated": "ci", worker: "", "edit": edit}
		harness.Eventually(t, func() bool {
			node := nodekeep.Node(t, name)
			return !harness.Gated(node) && harness.HasAll(node.Labels, want)
		}, takesOver, 20*time.Millisecond, "a standby must take over and complete the Node")
		whole = time.Since(started)
		nodekeep.WaitRecorded(t, node, want)
		recorded = time.Since(started)
		neverSchedulableWithout(t, watcher.Stop(), map[string]map[string]string{string(node.UID): {"dedicated": "ci", worker: ""}})
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

// The times in a Lease are another machine's. A replica that waits counts from when it saw the Lease change, by its own clock.
func TestALeaseOfAHolderWhoseClockIsAnHourOffIsTakenOverLikeAnyOther(t *testing.T) {
	takesMinutes(t)
	captureWith(t, nodekeep.Route) // with a Lease
	leases := nodekeep.Admin.CoordinationV1().Leases(harness.Namespace)
	for name, skew := range map[string]time.Duration{"an hour ahead": time.Hour, "an hour behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			leads := func() {
				t.Helper()
				harness.Eventually(t, func() bool {
					return captureSeries(t, "nodekeep_controller_leading") == 1
				}, 2*harness.Settles, 20*time.Millisecond)
			}
			leads() // so there is a Lease
			require.NoError(t, nodekeep.StopCapture())
			lease, err := leases.Get(t.Context(), capture.LeaseName, metav1.GetOptions{})
			require.NoError(t, err)
			holder, pos, seconds := "skewed", metav1.NewMicroTime(time.Now().Add(skew)), int32(15)
			lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.AcquireTime, lease.Spec.LeaseDurationSeconds = &holder, &pos, &pos, &seconds
			_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
			require.NoError(t, err)
			started := time.Now()
			require.NoError(t, nodekeep.StartCapture(t.Context()))
			leads()
			took := time.Since(started)
			t.Logf("taken over %s after the last sign of the holder", took.Round(time.Millisecond))
			assert.Greater(t, took, 10*time.Second, "a holder that is alive must not be robbed because its clock is behind")
		})
	}
}
