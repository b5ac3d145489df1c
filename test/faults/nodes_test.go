package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// worker is a label that no kubelet may set.
const worker = "node-role.kubernetes.io/worker"

// ordinary is what the webhook restores in the CREATE; with protected, a label waits for capture behind the gate.
var (
	ordinary  = map[string]string{"dedicated": "ci", "example.com/pool": "blue"}
	protected = map[string]string{"dedicated": "ci", worker: ""}
)

// names returns count names with a common beginning.
func names(prefix string, count int) (all []string) {
	for n := range count {
		all = append(all, fmt.Sprintf("%s-%d", prefix, n+1))
	}
	return all
}

// returning are recorded Nodes that are deleted while something is broken, and register again.
type returning struct {
	names []string
	want  map[string]string
}

func recordedNodes(t testing.TB, prefix string, count int, want map[string]string) returning {
	t.Helper()
	r := returning{names: names(prefix, count), want: want}
	harness.Parallel(r.names, 4, func(name string) { nodekeep.RegisterRecorded(t, name, want) })
	return r
}

// deleteAll deletes Nodes.
func deleteAll(t testing.TB, names []string) {
	t.Helper()
	for _, name := range names {
		nodekeep.DeleteNode(t, name)
	}
}

// expected says of each of the Nodes that it should carry these labels.
func expected(names []string, labels map[string]string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, name := range names {
		all[name] = labels
	}
	return all
}

// neverSchedulableWithout says of the states that a watch saw: no Node of these names or UIDs was ever schedulable without the labels and taints that
// it should carry.
func neverSchedulableWithout(t testing.TB, seen []harness.State, expected map[string]map[string]string, taints ...string) {
	t.Helper()
	states := 0
	for _, node := range seen {
		want, ours := expected[node.Name]
		if !ours {
			want, ours = expected[string(node.UID)]
		}
		if !ours {
			continue
		}
		states++
		lacks := !harness.HasAll(node.Labels, want)
		for _, text := range taints {
			lacks = lacks || !harness.Carries(node.Node, text)
		}
		if lacks && !harness.Gated(node.Node) {
			t.Errorf("node %s, version %s, could be scheduled to with labels %v and taints %v, without %v and %v",
				node.Name, node.ResourceVersion, node.Labels, harness.TaintsOf(node.Node), want, taints)
		}
	}
	require.NotZero(t, states, "the watch must have seen the Nodes")
}

// measured is what became of returning Nodes.
type measured struct {
	deleted, registered, completed time.Duration // the slowest of each
	soonest, soonestDeletion       time.Duration // the fastest registration and deletion
	restored                       int           // complete in the CREATE itself
	late                           int           // not so, but the API server may have given up on a webhook that works
}

func (m measured) String() string {
	return fmt.Sprintf("deleted after %s, registered after %s, complete %s later, %d restored in the CREATE",
		round(m.deleted), round(m.registered), round(m.completed), m.restored)
}

// comeBack deletes the Nodes and has their kubelets register them, all at once, and waits until they are complete. Whatever
// is broken, no registration fails, no Node is ever schedulable without what it should carry, and no record loses
// anything.
func (r returning) comeBack(t testing.TB) measured {
	t.Helper()
	watcher := nodekeep.WatchNodes(t)
	m := measured{soonest: time.Hour, soonestDeletion: time.Hour}
	var mu sync.Mutex
	harness.Parallel(r.names, len(r.names), func(name string) {
		client, began := nodekeep.Kubelet(t, name), time.Now()
		if err := nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete node %s: %v; a Node can always be deleted", name, err)
		}
		deleted, began := time.Since(began), time.Now()
		returned, err := client.CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
		registered, began := time.Since(began), time.Now()
		if err != nil {
			t.Errorf("register node %s: %v; a kubelet must always be able to register its Node", name, err)
			return
		}
		assert.Eventually(t, func() bool {
			node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && !harness.Gated(node) && harness.HasAll(node.Labels, r.want)
		}, harness.Settles, 10*time.Millisecond, "capture must complete node %s", name)
		mu.Lock()
		defer mu.Unlock()
		m.deleted, m.registered, m.completed = max(m.deleted, deleted), max(m.registered, registered), max(m.completed, time.Since(began))
		m.soonest, m.soonestDeletion = min(m.soonest, registered), min(m.soonestDeletion, deleted)
		switch {
		case !harness.Gated(returned) && harness.HasAll(returned.Labels, r.want):
			m.restored++
		case !harness.Gated(returned):
			assert.Fail(t, "a Node joined bare", "%s with %v", name, returned.Labels)
		case registered >= webhookTimeout:
			m.late++
		}
	})
	for _, name := range r.names {
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), r.want)
	}
	neverSchedulableWithout(t, watcher.Stop(), expected(r.names, r.want))
	require.False(t, t.Failed())
	return m
}

// attempts is how often something is tried that a machine which stands still for a moment can spoil.
const attempts = 5

// areRestored has the Nodes register again and asserts that each was complete in the CREATE itself. A round in which the API server
// may have given up on a call is repeated; what is missing in an answer that came in time is not forgiven.
func (r returning) areRestored(t testing.TB) {
	t.Helper()
	m := r.comeBack(t)
	for n := 1; n < attempts && m.late > 0 && m.restored+m.late == len(r.names); n++ {
		t.Logf("once more: %s", m)
		m = r.comeBack(t)
	}
	assert.Equal(t, len(r.names), m.restored, "all must be restored in the CREATE")
}

// nothingLost says of Nodes that live and of their records that nothing was lost.
func nothingLost(t *testing.T, names []string, want map[string]string) {
	t.Helper()
	for _, name := range names {
		record := nodekeep.MustRecord(t, name)
		assert.Zero(t, record.DeletedAt, "node %s lives", name)
		assert.Equal(t, want, record.Items(), "the record of node %s has shrunk", name)
		assert.True(t, harness.HasAll(nodekeep.Node(t, name).Labels, want), name)
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// p99 returns the time that one in a hundred exceeded.
func p99(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)*99-1)/100]
}

// derivedOf returns the taints of a Node that nodekeep says it has derived from the labels.
func derivedOf(node *corev1.Node) []corev1.Taint {
	return policy.DerivedTaints(node.Annotations[policy.TaintsAnnotation])
}

// endState returns a Node and its record, comparable with those of another Node that went through the same.
func endState(t testing.TB, name string) string {
	t.Helper()
	node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	found, ok := nodekeep.Record(t, name)
	stamp, _ := record.ParseStamp(node.Annotations[policy.StampAnnotation])
	text, err := json.MarshalIndent(map[string]any{
		"labels": node.Labels, "taints": harness.TaintsOf(node),
		"given": slices.Sorted(maps.Keys(stamp.Given)), "derived": node.Annotations[policy.TaintsAnnotation],
		"isRecorded": ok, "recordIsOfThisNode": found.Newest().UID == node.UID, "remembered": found.Items(), "gone": !found.DeletedAt.IsZero(),
	}, "", " ")
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), name, "NAME")
}

// quiet waits until nothing has changed on a Node and in its record for a while, and returns the state.
func quiet(t testing.TB, name string, period time.Duration, current func() bool) string {
	t.Helper()
	require.Eventually(t, current, harness.Settles, 10*time.Millisecond, "node %s: %s", name, evaluated(func() string { return endState(t, name) }))
	last, start := endState(t, name), time.Now()
	for time.Since(start) < period {
		time.Sleep(20 * time.Millisecond)
		if now := endState(t, name); now != last {
			last, start = now, time.Now()
		}
	}
	return last
}

// evaluated is a text that is made when it is printed.
type evaluated func() string

// String makes it.
func (e evaluated) String() string { return e() }

// comesToRest asserts that a Node and its record, once they have not changed for a moment, are not written for a while. Processes that
// fight over them pause longer each time, but in the beginning not for so long.
func comesToRest(t testing.TB, name string, period time.Duration) {
	t.Helper()
	versions := func() [2]string {
		return [2]string{nodekeep.Node(t, name).ResourceVersion, nodekeep.RecordMap(t, name).ResourceVersion}
	}
	last, start := versions(), time.Now()
	require.Eventually(t, func() bool {
		if now := versions(); now != last {
			last, start = now, time.Now()
		}
		return time.Since(start) > 1500*time.Millisecond
	}, harness.Settles, 20*time.Millisecond, "node %s and its record are written again and again", name)
	time.Sleep(period)
	assert.Equal(t, last, versions(), "the Node and its record must rest")
}
