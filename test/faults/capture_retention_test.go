package faults

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// sweeping restarts capture so that it sweeps every second, with no bound but that of what is due.
func sweeping(t testing.TB) *proxy.Proxy {
	t.Helper()
	captureWith(t, nodekeep.Route, noElection, "--retention-sweep=1s", "--retention-fraction=1")
	return captureProxy(t)
}

// longGone deletes a Node and puts into its record that it has been gone for longer than records are kept.
func longGone(t testing.TB, name string) {
	t.Helper()
	nodekeep.DeleteNode(t, name)
	nodekeep.WaitDeletionRecorded(t, name)
	hasLongBeenGone(t, name)
}

func hasLongBeenGone(t testing.TB, name string) {
	t.Helper()
	nodekeep.AgeRecord(t, name, 1000*time.Hour)
}

// sweptWith returns how many records sweeps of the running capture have ended with an outcome.
func sweptWith(t testing.TB, outcome string) float64 {
	t.Helper()
	return captureSeries(t, `nodekeep_capture_records_collected_total{outcome="`+outcome+`"}`)
}

func TestASweepUnderAnAPIServerThatErrsCollectsNothingAndGoesOnAfterwards(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	p := sweeping(t)
	for _, c := range []struct {
		name  string
		fault proxy.Fault
	}{
		{"looks for Nodes are answered 500", proxy.Answer(proxy.NodeLooks, http.StatusInternalServerError, metav1.StatusReasonInternalError, 1)},
		{"looks for Nodes are answered 403", proxy.Answer(proxy.NodeLooks, http.StatusForbidden, metav1.StatusReasonForbidden, 1)},
		{"looks for Nodes are answered 404 by something else", func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
			if proxy.NodeLooks(r) {
				http.NotFound(w, r)
				return
			}
			apiServer.ServeHTTP(w, r)
		}},
		{"removals are answered 500", proxy.Answer(proxy.RecordRemovals, http.StatusInternalServerError, metav1.StatusReasonInternalError, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := names("swept-shaken", 5)
			var removals atomic.Int64
			p.Break(proxy.All(proxy.Report(proxy.RecordRemovals, func(*http.Request) { removals.Add(1) }), c.fault))
			for _, name := range names {
				nodekeep.RegisterRecorded(t, name, want)
				longGone(t, name)
			}
			failed := sweptWith(t, "failed")
			harness.Eventually(t, func() bool { return sweptWith(t, "failed") >= failed+3 }, harness.Settles, 50*time.Millisecond)
			for _, name := range names {
				record, ok := nodekeep.Record(t, name)
				require.True(t, ok, name)
				assert.Equal(t, want, record.Items())
			}
			t.Logf("%.0f sweeps ended with their first error; %d removals were asked for", sweptWith(t, "failed")-failed, removals.Load())
			p.Break(nil)
			started := time.Now()
			for _, name := range names {
				nodekeep.WaitNoRecord(t, name)
			}
			t.Logf("all were collected %s after it was over", time.Since(started).Round(10*time.Millisecond))
		})
	}
}

// Capture hears nothing of a Node that is back. That it is in no cache proves nothing.
func TestTheRecordOfANodeThatCaptureDoesNotKnowToLiveIsNotCollected(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	const name, witnessed = "swept-unseen", "swept-unseen-gone"
	p := sweeping(t)
	nodekeep.RegisterRecorded(t, name, want)
	nodekeep.RegisterRecorded(t, witnessed, want)
	nodekeep.DeleteNode(t, name)
	nodekeep.WaitDeletionRecorded(t, name)
	longGone(t, witnessed)
	nodekeep.WaitNoRecord(t, witnessed)

	var removals atomic.Int64
	p.Break(proxy.All(
		proxy.Report(proxy.About(store.Name(name), proxy.RecordRemovals), func(*http.Request) { removals.Add(1) }),
		proxy.Hang(proxy.Reads("nodes"), time.Minute),
	))
	p.CutConnections()
	nodekeep.Register(t, name)
	kept := sweptWith(t, "kept")
	hasLongBeenGone(t, name)
	harness.Eventually(t, func() bool { return sweptWith(t, "kept") >= kept+3 }, harness.Settles, 50*time.Millisecond, "sweeps must have come to it")
	record, ok := nodekeep.Record(t, name)
	require.True(t, ok)
	assert.Equal(t, want, record.Items())
	assert.Zero(t, removals.Load())
	p.Break(nil)
	p.CutConnections()
	node := nodekeep.WaitRestored(t, name, want)
	require.Equal(t, node.UID, nodekeep.WaitRecorded(t, node, want).Newest().UID)
}

// Between the look for a Node and the removal of its record the Node registers, for each of many.
func TestANodeThatRegistersInTheMomentOfTheRemovalHasItsRecordBack(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	p := sweeping(t)
	names := recordedNodes(t, "swept-moment", 5, want).names
	swept := func() float64 { return sweptWith(t, "put_back") + sweptWith(t, "kept") }
	prev := swept()
	watcher := nodekeep.WatchNodes(t)
	var mu sync.Mutex
	met := map[string]bool{}
	p.Break(func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		for _, name := range names {
			if proxy.RecordRemovals(r) && proxy.About(store.Name(name), proxy.RecordRemovals)(r) {
				mu.Lock()
				if !met[name] {
					met[name] = true
					if _, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{}); err != nil {
						t.Errorf("register node %s: %v", name, err)
					}
				}
				mu.Unlock()
			}
		}
		apiServer.ServeHTTP(w, r)
	})
	for _, name := range names {
		longGone(t, name)
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(met) == len(names) }, harness.Settles, 20*time.Millisecond)
	for _, name := range names {
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
	}
	neverSchedulableWithout(t, watcher.Stop(), expected(names, want))
	require.Eventually(t, func() bool { return swept() == prev+float64(len(names)) }, harness.Settles, 20*time.Millisecond, "each is put back, or was written before the removal arrived")
}
