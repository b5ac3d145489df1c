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
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// sweepingThrough restarts capture so that it sweeps every second, with no bound but that of what is due.
func sweepingThrough(t testing.TB) *proxy.Proxy {
	t.Helper()
	return captureThrough(t, "--retention-sweep=1s", "--retention-fraction=1")
}

// longGone deletes a Node and puts into its record that it has been gone for longer than records are kept.
func longGone(t testing.TB, name string) {
	t.Helper()
	deleteNode(t, name)
	require.Eventually(t, func() bool { record, ok := recordOf(t, name); return ok && !record.DeletedAt.IsZero() }, settles, 10*time.Millisecond)
	hasLongBeenGone(t, name)
}

func hasLongBeenGone(t testing.TB, name string) {
	t.Helper()
	records := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cm, err := records.Get(t.Context(), store.Name(name), metav1.GetOptions{})
		require.NoError(t, err)
		record, err := store.Decode([]byte(cm.Data[store.DataKey]), name)
		require.NoError(t, err)
		record.DeletedAt = time.Now().Add(-1000 * time.Hour)
		data, err := store.Encode(record)
		require.NoError(t, err)
		cm.Data[store.DataKey] = string(data)
		_, err = records.Update(t.Context(), cm, metav1.UpdateOptions{})
		return err
	}))
}

func isCollected(t testing.TB, name string) {
	t.Helper()
	require.Eventually(t, func() bool { _, ok := recordOf(t, name); return !ok }, settles, 20*time.Millisecond, "the record of %s must be collected", name)
}

// sweptWith is how many records sweeps of the running capture have ended with an outcome.
func sweptWith(t testing.TB, outcome string) float64 {
	t.Helper()
	return series(t, nodekeep.MetricsURL("capture"), `nodekeep_capture_records_collected_total{outcome="`+outcome+`"}`)
}

func TestASweepUnderAnAPIServerThatErrsCollectsNothingAndGoesOnAfterwards(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	p := sweepingThrough(t)
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
			names := nodeNames("swept-shaken", 5)
			var removals atomic.Int64
			p.Break(proxy.All(proxy.Report(proxy.RecordRemovals, func(*http.Request) { removals.Add(1) }), c.fault))
			for _, name := range names {
				remembered(t, name, want)
				longGone(t, name)
			}
			failed := sweptWith(t, "failed")
			require.Eventually(t, func() bool { return sweptWith(t, "failed") >= failed+3 }, settles, 50*time.Millisecond)
			for _, name := range names {
				record, ok := recordOf(t, name)
				if assert.True(t, ok, name) {
					assert.Equal(t, want, record.Items())
				}
			}
			t.Logf("%.0f sweeps ended with their first error; %d removals were asked for", sweptWith(t, "failed")-failed, removals.Load())
			p.Break(nil)
			started := time.Now()
			for _, name := range names {
				isCollected(t, name)
			}
			t.Logf("all were collected %s after it was over", time.Since(started).Round(10*time.Millisecond))
		})
	}
}

// Capture hears nothing of a Node that is back. That it is in no cache proves nothing.
func TestTheRecordOfANodeThatCaptureDoesNotKnowToLiveIsNotCollected(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	const name, witnessed = "swept-unheard", "swept-unheard-gone"
	p := sweepingThrough(t)
	remembered(t, name, want)
	remembered(t, witnessed, want)
	deleteNode(t, name)
	require.Eventually(t, func() bool { record, ok := recordOf(t, name); return ok && !record.DeletedAt.IsZero() }, settles, 10*time.Millisecond)
	longGone(t, witnessed)
	isCollected(t, witnessed)

	var removals atomic.Int64
	p.Break(proxy.All(
		proxy.Report(proxy.About(store.Name(name), proxy.RecordRemovals), func(*http.Request) { removals.Add(1) }),
		proxy.Hang(proxy.Reads("nodes"), time.Minute),
	))
	p.CutConnections()
	register(t, name)
	kept := sweptWith(t, "kept")
	hasLongBeenGone(t, name)
	require.Eventually(t, func() bool { return sweptWith(t, "kept") >= kept+3 }, settles, 50*time.Millisecond, "sweeps must have come to it")
	record, ok := recordOf(t, name)
	require.True(t, ok)
	assert.Equal(t, want, record.Items())
	assert.Zero(t, removals.Load())
	p.Break(nil)
	p.CutConnections()
	node := complete(t, name, want)
	require.Equal(t, node.UID, remembers(t, node, want).Newest().UID)
}

// Between the look for a Node and the removal of its record the Node registers, for each of many.
func TestANodeThatRegistersInTheMomentOfTheRemovalHasItsRecordBack(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	p := sweepingThrough(t)
	names := nodeNames("swept-moment", 5)
	should := map[string]map[string]string{}
	for _, name := range names {
		remembered(t, name, want)
		should[name] = want
	}
	stop := watchNodes(t)
	var mu sync.Mutex
	met := map[string]bool{}
	p.Break(func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		for _, name := range names {
			if proxy.RecordRemovals(r) && proxy.About(store.Name(name), proxy.RecordRemovals)(r) {
				mu.Lock()
				if !met[name] {
					met[name] = true
					if _, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{}); err != nil {
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
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(met) == len(names) }, settles, 20*time.Millisecond)
	for _, name := range names {
		remembers(t, complete(t, name, want), want)
	}
	neverBare(t, stop(), should)
	t.Logf("%.0f records were put back, %.0f had been written before the removal arrived", sweptWith(t, "put_back"), sweptWith(t, "kept"))
	assert.InDelta(t, len(names), sweptWith(t, "put_back")+sweptWith(t, "kept"), 0)
}
