package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const pausedItems = "nodekeep_capture_items_paused"

// Without a brake, capture added the taint again 814 times in 10 s, and wrote the record before each.
func TestCaptureAddsARulesTaintThatAClientRemovesAtOnceLessAndLessOften(t *testing.T) {
	fought, calm := "fights-fought", "fights-calm"
	follow(t, fought, calm)
	node, prev := nodekeep.Node(t, fought), captureSeries(t, "nodekeep_capture_steps_total")
	records := countWrites(t, fought)
	attack := removeTaintAtOnce(t, fought, "lane=ci:NoSchedule", "tainter")
	time.Sleep(3 * time.Second)

	// Neither the Node's other items nor other Nodes wait.
	nodekeep.Label(t, fought, map[string]string{"example.com/other": "x", "tenant": "blue"})
	nodekeep.Label(t, calm, map[string]string{"tenant": "blue"})
	carries(t, fought, "tenant=blue:NoExecute")
	carries(t, calm, "tenant=blue:NoExecute")
	nodekeep.WaitRecorded(t, node, map[string]string{"lane": "ci", "example.com/other": "x", "tenant": "blue"})

	time.Sleep(time.Until(attack.began.Add(10 * time.Second)))
	nodekeep.WaitEvent(t, fought, capture.ItemPaused)
	removed, took := attack.stop()
	writes := records()
	steps := captureSeries(t, "nodekeep_capture_steps_total") - prev
	t.Logf("in %s the client removed the taint %d times; the record was written %d times; capture took %.0f steps on all Nodes",
		took.Round(time.Millisecond), removed, writes, steps)
	assert.Greater(t, removed, 3, "the client must have fought")
	assert.Less(t, removed, 20, "capture must add the taint less and less often")
	assert.Less(t, writes, 30, "and write the record no more often than that and the two edits call for")
	assert.Less(t, steps, 60.0)

	reported := pauseEvents(t, fought)
	require.Len(t, reported, 1, "one Event says it, not one for each time")
	assert.LessOrEqual(t, reported[0].Count, int32(1))
	for _, side := range []string{`"nodekeep"`, `"tainter"`, "lane:NoSchedule"} {
		assert.Contains(t, reported[0].Message, side)
	}
	assert.Empty(t, pauseEvents(t, calm))

	carries(t, fought, "lane=ci:NoSchedule") // after the pause that was running
	harness.Eventually(t, func() bool { return captureSeries(t, pausedItems) == 0 }, harness.Settles, 20*time.Millisecond)
	comesToRest(t, fought, 0)
	carries(t, fought, "lane=ci:NoSchedule")
}

func TestCaptureAddsARulesTaintAtOnceThatAnOperatorRemovesTwice(t *testing.T) {
	t.Parallel()
	const name = "fights-operator"
	follow(t, name)
	for range 2 {
		removed := time.Now()
		nodekeep.Untaint(t, name, "lane=ci:NoSchedule")
		carries(t, name, "lane=ci:NoSchedule")
		t.Logf("added again after %s", time.Since(removed).Round(time.Millisecond))
	}
	nodekeep.Label(t, name, map[string]any{"lane": nil}) // and back: the operator's mind changes, not another client's
	harness.Eventually(t, func() bool { return len(harness.TaintsOf(nodekeep.Node(t, name))) == 0 }, harness.Settles, 10*time.Millisecond)
	nodekeep.Label(t, name, map[string]string{"lane": "ci"})
	carries(t, name, "lane=ci:NoSchedule")
	assert.Empty(t, pauseEvents(t, name), "nothing must wait for an operator")
}

func TestANodeThatMissesAPausedTaintStaysGated(t *testing.T) {
	t.Parallel()
	const name = "fights-gated"
	follow(t, name)
	attack := removeTaintAtOnce(t, name, "lane=ci:NoSchedule", "tainter")
	nodekeep.WaitEvent(t, name, capture.ItemPaused)
	watcher := nodekeep.WatchNodes(t)
	nodekeep.Taint(t, name, "nodekeep.dev/restoring=:NoSchedule")
	nodekeep.Label(t, name, map[string]string{"tenant": "blue"}) // which is followed behind the gate
	carries(t, name, "tenant=blue:NoExecute")
	attack.stop()
	carries(t, name, "lane=ci:NoSchedule")
	nodekeep.WaitRestored(t, name, map[string]string{"lane": "ci"})
	wasGated := false
	watcher.Stop()
	for _, state := range watcher.States(name) {
		lifted := wasGated && !harness.Gated(state.Node)
		wasGated = harness.Gated(state.Node)
		if lifted {
			assert.True(t, harness.Carries(state.Node, "lane=ci:NoSchedule"), "version %s: the gate must stay until the taint is there", state.ResourceVersion)
		}
	}
}

func TestTheRecordOfALabelThatChangesAllTheTimeIsWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	node := nodekeep.RegisterRecorded(t, "fights-busy", map[string]string{"example.com/load": "start"})
	records := countWrites(t, node.Name)
	began := time.Now()
	last, changes := changeAllTheTime(t, node.Name, "example.com/load", 20*time.Millisecond, func(changes int) bool {
		return changes >= 200 && time.Since(began) > 10*time.Second
	})
	took := time.Since(began)
	nodekeep.WaitRecorded(t, node, map[string]string{"example.com/load": last})
	seconds := time.Since(began).Seconds()
	writes := records()
	t.Logf("%d changes in %.1f s led to %d writes of the record in %.1f s", changes, took.Seconds(), writes, seconds)
	assert.LessOrEqual(t, float64(writes), seconds+4, "one write a second, and three at once after a quiet time")
	assert.Greater(t, float64(writes), seconds/4, "nor may it wait for the changes to end")
}

func TestTheLastOfManyChangesIsRecordedWhenTheNodeIsDeletedRightAfterIt(t *testing.T) {
	t.Run("and the webhook sees the deletion", func(t *testing.T) {
		lastOfManyChanges(t, "fights-deleted-seen")
	})
	t.Run("and capture alone sees it", func(t *testing.T) {
		nodekeep.WithoutWebhook(t, func() { lastOfManyChanges(t, "fights-deleted-unseen") })
	})
}

func lastOfManyChanges(t *testing.T, name string) {
	t.Helper()
	node := nodekeep.RegisterRecorded(t, name, map[string]string{"example.com/load": "start"})
	last, changes := changeAllTheTime(t, name, "example.com/load", 20*time.Millisecond, func(changes int) bool { return changes == 150 })
	nodekeep.DeleteNode(t, name)
	record := nodekeep.WaitRecorded(t, node, map[string]string{"example.com/load": last})
	t.Logf("the last of %d changes is in the record, deleted: %t", changes, !record.DeletedAt.IsZero())
}

// A rule's taint follows a label whose record is written once a second: neither waits for the other for ever.
func TestARulesTaintFollowsALabelThatChangesAllTheTime(t *testing.T) {
	t.Parallel()
	const name = "fights-followed"
	follow(t, name)
	began, seen := time.Now(), map[string]bool{}
	last, changes := changeAllTheTime(t, name, "lane", 50*time.Millisecond, func(int) bool {
		for _, text := range harness.TaintsOf(nodekeep.Node(t, name)) {
			seen[text] = true
		}
		return len(seen) > 3 || time.Since(began) > 3*harness.Settles
	})
	t.Logf("the taint followed %d of %d changes in %s", len(seen)-1, changes, time.Since(began).Round(time.Millisecond))
	assert.Greater(t, len(seen), 3, "the taint must follow while the label changes, not only at the end")
	carries(t, name, "lane="+last+":NoSchedule")
	assert.Empty(t, pauseEvents(t, name), "a taint that follows a label is no fight")
}

func TestTheLastOfManyChangesIsRecordedByACaptureThatWasKilled(t *testing.T) {
	node := nodekeep.RegisterRecorded(t, "fights-killed", map[string]string{"example.com/load": "start"})
	last, _ := changeAllTheTime(t, node.Name, "example.com/load", 20*time.Millisecond, func(changes int) bool { return changes == 150 })
	killCapture(t)
	require.NoError(t, nodekeep.StartCapture(t.Context()))
	nodekeep.WaitRecorded(t, node, map[string]string{"example.com/load": last})
}

// follow has Nodes whose label a rule turned into a taint.
func follow(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		nodekeep.RegisterRecorded(t, name, map[string]string{"lane": "ci"})
		carries(t, name, "lane=ci:NoSchedule")
	}
}

// carries waits until a Node carries a taint.
func carries(t testing.TB, name, text string) {
	t.Helper()
	harness.Eventually(t, func() bool { return harness.Carries(nodekeep.Node(t, name), text) }, 2*harness.Settles, 10*time.Millisecond,
		"node %s must carry the taint %s", name, text)
}

// attack is a client that does something as soon as it can.
type attack struct {
	began time.Time
	stop  func() (times int, took time.Duration)
}

// removeTaintAtOnce removes a taint of a Node whenever a watch shows it, until told to stop.
func removeTaintAtOnce(t testing.TB, name, text, manager string) attack {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watcher, err := nodekeep.Admin.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	require.NoError(t, err)
	times, ended, began := 0, make(chan struct{}), time.Now()
	go func() {
		defer close(ended)
		for event := range watcher.ResultChan() {
			node, ok := event.Object.(*corev1.Node)
			if !ok || event.Type == watch.Deleted || !harness.Carries(node, text) {
				continue
			}
			if _, err := nodekeep.PutTaints(t, node, harness.WithoutTaint(node.Spec.Taints, text), manager); err == nil {
				times++
			}
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); watcher.Stop(); <-ended })
	t.Cleanup(stop)
	return attack{began: began, stop: func() (int, time.Duration) { stop(); return times, time.Since(began) }}
}

// countWrites counts how often the record of a Node is stored, from now on.
func countWrites(t testing.TB, node string) (stop func() int) {
	t.Helper()
	maps := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
	now, err := maps.Get(t.Context(), store.Name(node), metav1.GetOptions{})
	require.NoError(t, err)
	watcher, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + store.Name(node), ResourceVersion: now.ResourceVersion})
	require.NoError(t, err)
	var mu sync.Mutex
	versions, ended := []string{}, make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watcher.ResultChan() {
			if cm, ok := event.Object.(*corev1.ConfigMap); ok {
				mu.Lock()
				versions = append(versions, cm.ResourceVersion)
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(watcher.Stop)
	return func() int {
		t.Helper()
		now, err := maps.Get(t.Context(), store.Name(node), metav1.GetOptions{})
		require.NoError(t, err)
		count := 0
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			count = slices.Index(versions, now.ResourceVersion) + 1
			return count > 0
		}, harness.Settles, 5*time.Millisecond, "the watch must arrive at this moment")
		watcher.Stop()
		<-ended
		return count
	}
}

// changeAllTheTime gives a label a new value so often, or as fast as the API server answers, until that is enough, and
// returns the last one.
func changeAllTheTime(t testing.TB, name, key string, interval time.Duration, done func(changes int) bool) (last string, changes int) {
	t.Helper()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !done(changes) {
		<-ticker.C
		changes++
		last = fmt.Sprintf("v%d", changes)
		nodekeep.Label(t, name, map[string]string{key: last})
	}
	return last, changes
}

func pauseEvents(t testing.TB, node string) []corev1.Event {
	t.Helper()
	events, err := nodekeep.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + node + ",reason=" + capture.ItemPaused})
	require.NoError(t, err)
	return events.Items
}
