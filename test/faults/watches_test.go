package faults

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// Capture is started anew, and what it reads first breaks off half way, again and again.
func TestAListThatBreaksOffHalfWayAtTheStartShrinksNoRecord(t *testing.T) {
	want := protected
	p := captureProxy(t)
	names := recordedNodes(t, "cut-start", 20, want).names
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
			nodekeep.Label(t, names[0], map[string]string{"edit": "1"})
			nodekeep.WaitRecorded(t, nodekeep.Node(t, names[0]), map[string]string{"dedicated": "ci", worker: "", "edit": "1"})
			nodekeep.Label(t, names[0], map[string]any{"edit": nil})
			nodekeep.WaitRecorded(t, nodekeep.Node(t, names[0]), want)
			t.Logf("ready %s after its start, of which %d answers broke off after 10 kB; %d records are whole", ready.Round(time.Millisecond), c.times, len(names))
		})
	}
	deleteAll(t, names)
}

func allOf(item, o proxy.Match) proxy.Match {
	return func(r *http.Request) bool { return item(r) && o(r) }
}

// resumable is how long a watch must have lasted for client-go to resume it: otherwise it begins with a list again.
const resumable = 1100 * time.Millisecond

// unseen are twelve recorded Nodes that are edited, deleted, and deleted and registered again while capture receives nothing of it.
type unseen struct {
	names     []string
	want      map[string]string
	uids      map[string]map[string]string // of the Node objects that registered again: what they should carry
	unlabeled map[string]string            // what their labels are in the end
}

func (u *unseen) change(t *testing.T) {
	t.Helper()
	for _, name := range u.names[:4] {
		nodekeep.Label(t, name, map[string]string{"dedicated": "gpu"})
	}
	deleteAll(t, u.names[4:6])
	u.uids, u.unlabeled = map[string]map[string]string{}, map[string]string{worker: "", "added": "1"}
	for _, name := range u.names[6:8] {
		nodekeep.Label(t, name, map[string]any{"dedicated": nil, "added": "1"})
		nodekeep.DeleteNode(t, name)
		u.uids[string(nodekeep.Register(t, name).UID)] = map[string]string{worker: ""}
	}
}

// arrives waits until all that happened is recorded, and asserts that nothing was lost.
func (u *unseen) arrives(t *testing.T) (took time.Duration) {
	t.Helper()
	started := time.Now()
	for _, name := range u.names[:4] {
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"dedicated": "gpu", worker: ""})
	}
	for _, name := range u.names[4:6] {
		assert.Equal(t, u.want, nodekeep.WaitDeletionRecorded(t, name).Items())
	}
	for _, name := range u.names[6:8] {
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, u.unlabeled), u.unlabeled)
		assert.NotContains(t, nodekeep.Node(t, name).Labels, "dedicated", "a removed label is not restored")
	}
	nothingLost(t, u.names[8:], u.want)
	took = time.Since(started)
	deleteAll(t, append(u.names[:4:4], u.names[6:]...))
	return took
}

// The watches are cut and cannot be resumed where they ended, as after a compaction of etcd; the lists behind them
// break off half way as well.
func TestWatchesThatExpireAndRelistsThatBreakOffLoseNothing(t *testing.T) {
	watches := proxy.AnyOf(proxy.Watches("nodes"), proxy.Watches("configmaps"))
	resumed := func(r *http.Request) bool { // not the watch that stands in for a list
		return watches(r) && r.URL.Query().Get("sendInitialEvents") == ""
	}
	lists := proxy.AnyOf(proxy.ReadsAll("nodes"), proxy.ReadsAll("configmaps"))
	for _, c := range []struct {
		name, prefix string
		fault        proxy.Fault
	}{
		{"refused with 410 Gone", "expired-answer", proxy.Answer(resumed, http.StatusGone, metav1.StatusReasonExpired, 1)},
		{"ended by an event that says 410", "expired-event", proxy.Expire(resumed)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := captureProxy(t)
			u := unseen{names: recordedNodes(t, c.prefix, 12, protected).names, want: protected}
			time.Sleep(resumable)
			var nodes, records, lost atomic.Int64
			p.Break(proxy.All(
				proxy.Report(allOf(resumed, proxy.Watches("nodes")), func(*http.Request) { nodes.Add(1) }),
				proxy.Report(allOf(resumed, proxy.Watches("configmaps")), func(*http.Request) { records.Add(1) }),
				proxy.Report(lists, func(*http.Request) { lost.Add(1) }),
				proxy.Cut(proxy.Times(lists, 4), 10_000), c.fault))
			p.CutConnections()
			watcher := nodekeep.WatchNodes(t)
			u.change(t)
			took := u.arrives(t)
			neverSchedulableWithout(t, watcher.Stop(), u.uids)
			assert.GreaterOrEqual(t, lost.Load(), int64(4), "lists must have broken off")
			assert.Positive(t, nodes.Load(), "the watch of Nodes must have expired")
			assert.Positive(t, records.Load(), "the watch of records must have expired")
			t.Logf("%d watches expired, %d lists were asked for and four broke off; all was whole %s after the last edit, with resumed watches still expiring", nodes.Load()+records.Load(), lost.Load(), round(took))
		})
	}
}

// The real thing: while capture cannot reach the API server, etcd is compacted, and the API server starts anew, so that no process
// knows any more what happened in between.
func TestAnEtcdThatIsCompactedWhileCaptureReceivesNothingLosesNothing(t *testing.T) {
	p := captureProxy(t)
	u := unseen{names: recordedNodes(t, "compacted", 12, protected).names, want: protected}
	time.Sleep(resumable)
	watches := proxy.AnyOf(proxy.Watches("nodes"), proxy.Watches("configmaps"))
	p.Break(proxy.Answer(watches, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 1)) // what a watch waits out, and goes on from where it was
	p.CutConnections()
	u.change(t)
	require.NoError(t, nodekeep.Cluster.Compact(t.Context()))
	require.NoError(t, nodekeep.Cluster.RestartAPIServer(t.Context()))
	var expired atomic.Int64
	p.Break(proxy.Says(watches, "too old resource version", func(*http.Request) { expired.Add(1) }))
	took := u.arrives(t)
	assert.Positive(t, expired.Load(), "the API server must have said that it does not know any more what happened")
	t.Logf("%d watches were told that their version is too old; all was whole %s after capture could reach the API server", expired.Load(), round(took))
}

// changeForeignConfigMaps changes ConfigMaps that are no records, in the namespace of the records and in another one, twice a second
// for five minutes.
func changeForeignConfigMaps(t *testing.T) (changes int) {
	t.Helper()
	namespaces := []string{harness.Namespace, metav1.NamespaceDefault}
	name := func(n int) string { return fmt.Sprintf("foreign-%d", n%10) }
	for n := range 20 {
		client := nodekeep.Admin.CoreV1().ConfigMaps(namespaces[n/10])
		_, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(n)}}, metav1.CreateOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, client.Delete(t.Context(), name(n), metav1.DeleteOptions{})) }()
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); changes++ {
		<-ticker.C
		patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, changes)
		_, err := nodekeep.Admin.CoreV1().ConfigMaps(namespaces[changes/10%2]).Patch(t.Context(), name(changes), types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	return changes
}

// The API server remembers the last changes of ConfigMaps for little more than a minute. A watch that resumes from an older version
// is refused, and then all records are read again.
func TestOtherConfigMapsThatChangeHaveNobodyReadRecordsAgain(t *testing.T) {
	takesMinutes(t)
	names := recordedNodes(t, "resume", 5, map[string]string{"dedicated": "ci"}).names
	defer deleteAll(t, names)
	processes := map[string]*proxy.Proxy{"capture": captureProxy(t), "webhook": webhookProxy(t)}
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	type counts struct{ all, resumed atomic.Int64 }
	seen := map[string]*counts{}
	for process, p := range processes {
		c := &counts{}
		seen[process] = c
		p.Break(proxy.All(
			proxy.Report(proxy.AnyOf(proxy.ReadsAll("configmaps"), proxy.ReadsAll("nodes")), func(r *http.Request) {
				c.all.Add(1)
				t.Logf("%s reads all again at %s: %s", process, time.Now().Format(time.TimeOnly), r.URL)
			}),
			proxy.Report(proxy.Watches("configmaps"), func(*http.Request) { c.resumed.Add(1) })))
	}
	time.Sleep(resumable)
	for _, p := range processes {
		p.CutConnections() // ends the watches that first streamed everything, which run for minutes
	}
	prev := map[string]int64{} // a watch that begins on a connection that is just cut is an error, and after errors all is read
	require.Eventually(t, func() bool {
		resumed := true
		for process, c := range seen {
			prev[process], resumed = c.all.Load(), resumed && c.resumed.Load() > 0
		}
		time.Sleep(5 * resumable)
		return resumed && prev["capture"] == seen["capture"].all.Load() && prev["webhook"] == seen["webhook"].all.Load()
	}, harness.Settles, resumable, "capture and webhook must resume their watches of records")
	changes := changeForeignConfigMaps(t)
	for process, p := range processes {
		p.Break(nil)
		assert.Equal(t, prev[process], seen[process].all.Load(), "%s read everything again", process)
		assert.GreaterOrEqual(t, seen[process].resumed.Load(), int64(3), "%s must have resumed its watch, or this test shows nothing", process)
		t.Logf("%s resumed its watch of records %d times while other ConfigMaps changed %d times", process, seen[process].resumed.Load(), changes)
	}
}

// Something between capture and the API server takes the watches and brings nothing on them, without ever ending them.
func TestCaptureReplacesWatchesThatAreHeldOpenAndBringNothing(t *testing.T) {
	takesMinutes(t)
	p := captureProxy(t)
	const name = "held-open"
	node := nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci"})
	defer nodekeep.DeleteNode(t, name)
	time.Sleep(resumable)
	var nodes, records, all atomic.Int64
	var passes atomic.Bool // a watch that begins now
	held := func(watches proxy.Match) proxy.Match {
		return func(r *http.Request) bool { return !passes.Load() && watches(r) }
	}
	p.Break(proxy.All(
		proxy.Report(proxy.AnyOf(proxy.ReadsAll("configmaps"), proxy.ReadsAll("nodes")), func(*http.Request) { all.Add(1) }),
		proxy.Report(proxy.Watches("nodes"), func(*http.Request) { nodes.Add(1) }),
		proxy.Report(proxy.Watches("configmaps"), func(*http.Request) { records.Add(1) }),
		proxy.Mute(held(proxy.AnyOf(proxy.Watches("nodes"), proxy.Watches("configmaps"))), time.Hour)))
	p.CutConnections()
	require.Eventually(t, func() bool { return nodes.Load() > 0 && records.Load() > 0 }, harness.Settles, 20*time.Millisecond, "capture must watch again")
	time.Sleep(2 * time.Second) // a watch that began on a connection which was just being cut begins once more, and is held, too
	passes.Store(true)
	started := time.Now()
	nodekeep.Label(t, name, map[string]string{"dedicated": "gpu"})
	harness.Eventually(t, func() bool {
		record, ok := nodekeep.Record(t, name)
		return ok && record.Newest().UID == node.UID && record.Items()["dedicated"] == "gpu"
	}, 4*time.Minute, 20*time.Millisecond, "capture must give up watches that bring nothing")
	p.Break(nil)
	assert.Zero(t, all.Load(), "a watch that was given up is resumed, and nothing is read again")
	t.Logf("an edit was recorded %s after it, behind watches that were held open", time.Since(started).Round(time.Second))
}

// answersWithGate registers a Node of which nothing is known, in a dry run, and reports whether the webhook answered and the gate
// is as wanted. Without a stamp the webhook has not answered in time, which shows nothing.
func answersWithGate(t testing.TB, name string, gate bool) bool {
	t.Helper()
	dry, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	_, answered := dry.Annotations[policy.StampAnnotation]
	return answered && harness.Gated(dry) == gate
}

// The webhook hears nothing of records any more while the API server calls it as ever: its watch stalls, and no other one is
// answered. It must come to know that it may be behind.
func TestAWebhookWhoseRecordsStallRestoresWhatItKnowsStampsItAndLeavesTheGate(t *testing.T) {
	takesMinutes(t)
	const name, later, witness = "stalled", "stalled-later", "stalled-witness"
	p := webhookProxy(t)
	var stalled atomic.Bool
	p.Break(proxy.Stall(proxy.Watches("configmaps"), &stalled))
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	prev := map[string]string{"changed": "old", "removed": "1", "kept": "1"}
	nodes := []*corev1.Node{nodekeep.RegisterRecorded(t, name, prev), nodekeep.RegisterRecorded(t, later, prev)}
	now := map[string]string{"changed": "new", "added": "1", "kept": "1"}
	shows := func(gate bool) func() bool { return func() bool { return answersWithGate(t, witness, gate) } }
	lifts, leaves := shows(false), shows(true)
	require.Eventually(t, lifts, harness.Settles, 50*time.Millisecond)

	p.Break(proxy.Hang(proxy.Reads("configmaps"), 10*time.Minute))
	stalled.Store(true)
	started := time.Now()
	for _, node := range nodes {
		nodekeep.Label(t, node.Name, map[string]string{"changed": "new", "added": "1"})
		nodekeep.Label(t, node.Name, map[string]any{"removed": nil})
		nodekeep.WaitRecorded(t, node, now)
		nodekeep.DeleteNode(t, node.Name)
	}
	early := time.Now()
	assert.False(t, harness.Gated(nodekeep.Register(t, name)), "it cannot know yet that it is behind: this is the window")
	harness.Eventually(t, func() bool {
		return harness.HasAll(labelsOfPeople(nodekeep.Node(t, name)), now) && len(labelsOfPeople(nodekeep.Node(t, name))) == len(now)
	}, harness.Settles, 5*time.Millisecond, "capture corrects what was stale")
	window := time.Since(early)
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), now)
	require.Eventually(t, leaves, 3*time.Minute, 50*time.Millisecond, "the webhook must notice")
	noticed := time.Since(started)

	var returned *corev1.Node
	nodekeep.WithoutCapture(t, func() {
		returned = nodekeep.Register(t, later)
		assert.True(t, harness.HasAll(returned.Labels, map[string]string{"changed": "old", "removed": "1", "kept": "1"}), "it restores what it knows: %v", returned.Labels)
		assert.True(t, harness.Gated(nodekeep.Node(t, later)), "and does not claim that nothing is missing")
		stamp, ok := record.ParseStamp(returned.Annotations[policy.StampAnnotation])
		assert.True(t, ok)
		assert.Equal(t, []string{"changed", "kept", "removed"}, slices.Sorted(maps.Keys(stamp.Given)))
	})
	started = time.Now()
	assert.Equal(t, now, labelsOfPeople(nodekeep.WaitRestored(t, later, now)), "capture corrects what was stale")
	nodekeep.WaitRecorded(t, nodekeep.Node(t, later), now)
	right := time.Since(started)

	p.Break(nil)
	p.CutConnections()
	started = time.Now()
	require.Eventually(t, lifts, harness.Settles, 20*time.Millisecond)
	t.Logf("while the webhook did not know yet that it was behind, a Node showed what was stale for %s", window.Round(time.Millisecond))
	t.Logf("no longer sure %s after the watch had stalled; a stale Node corrected %s after capture could; sure again %s after the stall",
		noticed.Round(time.Second), right.Round(time.Millisecond), time.Since(started).Round(time.Millisecond))
	deleteAll(t, []string{name, later})
}

// An API server, or something in between, accepts each watch of records, sends nothing on it and ends it in time.
func TestAWebhookWhoseWatchesAreAcceptedAndBringNothingLeavesTheGate(t *testing.T) {
	takesMinutes(t)
	const name = "mute-witness"
	p := webhookProxy(t)
	var begun, accepted atomic.Bool
	p.Break(proxy.Report(proxy.Watches("configmaps"), func(*http.Request) { begun.Store(true) }))
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	harness.Eventually(t, func() bool { return begun.Load() && answersWithGate(t, name, false) }, harness.Settles, 50*time.Millisecond)
	time.Sleep(2 * resumable)
	p.Break(proxy.All(
		proxy.Report(proxy.Watches("configmaps"), func(*http.Request) { accepted.Store(true) }),
		proxy.Mute(proxy.Watches("configmaps"), 40*time.Second)))
	p.CutConnections()
	require.Eventually(t, accepted.Load, harness.Settles, 20*time.Millisecond)
	started := time.Now()
	harness.Eventually(t, func() bool { return answersWithGate(t, name, false) }, harness.Settles, 20*time.Millisecond, "its records are believed for a while")
	harness.Eventually(t, func() bool { return answersWithGate(t, name, true) }, 4*time.Minute, 20*time.Millisecond, "the webhook must notice that nothing arrives")
	noticed := time.Since(started)
	p.Break(nil)
	p.CutConnections()
	started = time.Now()
	harness.Eventually(t, func() bool { return answersWithGate(t, name, false) }, 3*time.Minute, 20*time.Millisecond, "a bookmark shows that the records are current")
	t.Logf("the webhook left the gate on %s after the last event, and lifted it again %s after watches brought something", noticed.Round(time.Second), time.Since(started).Round(time.Second))
}
