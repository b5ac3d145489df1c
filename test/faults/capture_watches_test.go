package faults

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// nothingLost says of Nodes that live and of their records that nothing was lost.
func nothingLost(t *testing.T, names []string, want map[string]string) {
	t.Helper()
	for _, name := range names {
		record, ok := recordOf(t, name)
		if assert.True(t, ok, name) {
			assert.Zero(t, record.DeletedAt, "node %s lives", name)
			assert.Equal(t, want, record.Items(), "the record of node %s has shrunk", name)
		}
		assert.True(t, hasAll(getNode(t, name).Labels, want), name)
	}
}

func manyRemembered(t *testing.T, prefix string, count int, want map[string]string) []string {
	t.Helper()
	names := nodeNames(prefix, count)
	for _, name := range names {
		register(t, name)
		label(t, name, want)
	}
	for _, name := range names {
		remembers(t, getNode(t, name), want)
	}
	return names
}

func deleteAll(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		deleteNode(t, name)
	}
}

// Capture is started anew, and what it reads first breaks off half way, again and again.
func TestAListThatBreaksOffHalfWayAtTheStartShrinksNoRecord(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	p := captureThrough(t)
	names := manyRemembered(t, "cut-start", 20, want)
	streams := func(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") != "" }
	for _, c := range []struct {
		name, resource string
		times          int64
		listed         bool // by requests for pages, as an API server without streamed lists would have it
	}{
		{"streamed Nodes", "nodes", 5, false},
		{"streamed records", "configmaps", 5, false},
		{"listed Nodes", "nodes", 1, true},
		{"listed records", "configmaps", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, nodekeep.StopCapture())
			reads := func(r *http.Request) bool { return proxy.Reads(c.resource)(r) && streams(r) != c.listed }
			var asked atomic.Int64
			faults := []proxy.Fault{proxy.Report(reads, func(*http.Request) { asked.Add(1) }), proxy.Cut(proxy.Times(reads, c.times), 10_000)}
			if c.listed {
				faults = append(faults, proxy.Answer(streams, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, 1))
			}
			p.Break(proxy.All(faults...))
			started := time.Now()
			require.NoError(t, nodekeep.StartCapture(t.Context())) // ready only when it has seen all
			ready := time.Since(started)
			p.Break(nil)
			require.Greater(t, asked.Load(), c.times, "the answers must have been cut")
			nothingLost(t, names, want)
			label(t, names[0], map[string]string{"edit": "1"})
			remembers(t, getNode(t, names[0]), map[string]string{"dedicated": "ci", worker: "", "edit": "1"})
			unlabel(t, names[0], "edit")
			remembers(t, getNode(t, names[0]), want)
			t.Logf("ready %s after its start, of which %d answers broke off after 10 kB; %d records are whole", ready.Round(time.Millisecond), c.times, len(names))
		})
	}
	deleteAll(t, names)
}

func both(one, other proxy.Match) proxy.Match {
	return func(r *http.Request) bool { return one(r) && other(r) }
}

// The watches are cut and cannot be taken up again where they ended, as after a compaction of etcd; the lists behind them
// break off half way as well. Meanwhile Nodes are edited, deleted, and deleted and registered again.
func TestWatchesThatExpireAndRelistsThatBreakOffLoseNothing(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	watches := proxy.Any(proxy.Watches("nodes"), proxy.Watches("configmaps"))
	resumed := func(r *http.Request) bool { // not the watch that stands in for a list
		return watches(r) && r.URL.Query().Get("sendInitialEvents") == ""
	}
	lists := func(r *http.Request) bool {
		return proxy.Any(proxy.Reads("nodes"), proxy.Reads("configmaps"))(r) && !resumed(r)
	}
	for _, c := range []struct {
		name, prefix string
		fault        func(match proxy.Match) proxy.Fault
	}{
		{"refused with 410 Gone", "expired-answer", func(match proxy.Match) proxy.Fault {
			return proxy.Answer(match, http.StatusGone, metav1.StatusReasonExpired, 1)
		}},
		{"ended by an event that says 410", "expired-event", proxy.Expire},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := captureThrough(t)
			names := manyRemembered(t, c.prefix, 12, want)
			time.Sleep(1100 * time.Millisecond) // client-go begins with a list again, and resumes nothing, where a watch lasted less than a second
			var nodes, records, lost atomic.Int64
			p.Break(proxy.All(
				proxy.Report(both(resumed, proxy.Watches("nodes")), func(*http.Request) { nodes.Add(1) }),
				proxy.Report(both(resumed, proxy.Watches("configmaps")), func(*http.Request) { records.Add(1) }),
				proxy.Report(lists, func(*http.Request) { lost.Add(1) }),
				proxy.Cut(proxy.Times(lists, 4), 10_000), c.fault(resumed)))
			p.CutConnections()
			seer := sightseeing(t)
			for _, name := range names[:4] {
				label(t, name, map[string]string{"dedicated": "gpu"})
			}
			for _, name := range names[4:6] {
				deleteNode(t, name)
			}
			uids := map[string]bool{}
			for _, name := range names[6:8] {
				unlabel(t, name, "dedicated")
				label(t, name, map[string]string{"added": "1"})
				deleteNode(t, name)
				uids[string(register(t, name).UID)] = true
			}
			started := time.Now()
			for _, name := range names[:4] {
				remembers(t, getNode(t, name), map[string]string{"dedicated": "gpu", worker: ""})
			}
			for _, name := range names[4:6] {
				require.True(t, within(settles, func() bool { record, ok := recordOf(t, name); return ok && !record.DeletedAt.IsZero() }), "node %s is gone", name)
				record, _ := recordOf(t, name)
				assert.Equal(t, want, record.Items())
			}
			for _, name := range names[6:8] {
				now := map[string]string{worker: "", "added": "1"}
				remembers(t, complete(t, name, now), now)
				assert.NotContains(t, getNode(t, name).Labels, "dedicated", "what was taken off does not come back")
			}
			nothingLost(t, names[8:], want)
			took := time.Since(started)
			p.Break(nil)
			p.CutConnections()
			assert.GreaterOrEqual(t, lost.Load(), int64(4), "lists must have broken off")
			for _, node := range seer.stop() {
				if uids[string(node.UID)] && !gated(node) {
					assert.Contains(t, node.Labels, worker, "node %s was schedulable without it", node.Name)
				}
			}
			assert.Positive(t, nodes.Load(), "the watch of Nodes must have expired")
			assert.Positive(t, records.Load(), "the watch of records must have expired")
			t.Logf("%d watches expired, %d lists were asked for and four broke off; all was whole %s after the last edit, with resumed watches still expiring", nodes.Load()+records.Load(), lost.Load(), took.Round(time.Millisecond))
			deleteAll(t, append(names[:4:4], names[6:]...))
		})
	}
}

// The real thing: while capture cannot reach the API server, Nodes are edited, deleted, and deleted and registered again, etcd is
// compacted, and the API server starts anew, so that nobody knows any more what happened in between.
func TestAnEtcdThatIsCompactedWhileCaptureHearsNothingLosesNothing(t *testing.T) {
	want, edited := map[string]string{"dedicated": "ci", worker: ""}, map[string]string{"dedicated": "gpu", worker: ""}
	p := captureThrough(t)
	names := manyRemembered(t, "compacted", 12, want)
	time.Sleep(1100 * time.Millisecond) // see above
	watches := proxy.Any(proxy.Watches("nodes"), proxy.Watches("configmaps"))
	p.Break(proxy.Answer(watches, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 1)) // what a watch waits out, and goes on from where it was
	p.CutConnections()
	for _, name := range names[:4] {
		label(t, name, map[string]string{"dedicated": "gpu"})
	}
	for _, name := range names[4:6] {
		deleteNode(t, name)
	}
	for _, name := range names[6:8] {
		unlabel(t, name, "dedicated")
		deleteNode(t, name)
		register(t, name)
	}
	require.NoError(t, nodekeep.Cluster.Compact(t.Context()))
	require.NoError(t, nodekeep.Cluster.RestartAPIServer(t.Context()))
	var expired atomic.Int64
	p.Break(proxy.Says(watches, "too old resource version", func(*http.Request) { expired.Add(1) }))
	started := time.Now()
	for _, name := range names[:4] {
		remembers(t, getNode(t, name), edited)
	}
	for _, name := range names[4:6] {
		require.True(t, within(settles, func() bool { record, ok := recordOf(t, name); return ok && !record.DeletedAt.IsZero() }), "node %s is gone", name)
		record, _ := recordOf(t, name)
		assert.Equal(t, want, record.Items())
	}
	for _, name := range names[6:8] {
		now := map[string]string{worker: ""}
		remembers(t, complete(t, name, now), now)
		assert.NotContains(t, getNode(t, name).Labels, "dedicated", "what was taken off does not come back")
	}
	nothingLost(t, names[8:], want)
	took := time.Since(started)
	assert.Positive(t, expired.Load(), "the API server must have said that it does not know any more what happened")
	t.Logf("%d watches were told that their version is too old; all was whole %s after capture could reach the API server", expired.Load(), took.Round(time.Millisecond))
	deleteAll(t, append(names[:4:4], names[6:]...))
}
