package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const pausedItems = "nodekeep_capture_items_paused"

// twoRules make a taint each, so that one can be fought over while the other is not.
var twoRules = strings.Replace(rulesAndMore, "  register:", "  - {selector: tenant, taint: \"tenant={value}:NoExecute\"}\n  register:", 1)

// Without a brake, capture added the taint again 814 times in 10 s, and wrote the record before each.
func TestCaptureAddsARulesTaintThatAClientRemovesAtOnceLessAndLessOften(t *testing.T) {
	fought, calm := "fights-fought", "fights-calm"
	followsTwoRules(t, fought, calm)
	node, before := getNode(t, fought), series(t, nodekeep.MetricsURL("capture"), "nodekeep_capture_steps_total")
	records := countWrites(t, fought)
	attack := removeTaintAtOnce(t, fought, "dedicated=ci:NoSchedule", "tainter")
	time.Sleep(3 * time.Second)

	// Neither the Node's other items nor other Nodes wait.
	label(t, fought, map[string]string{"example.com/other": "x", "tenant": "blue"})
	label(t, calm, map[string]string{"tenant": "blue"})
	carries(t, fought, "tenant=blue:NoExecute")
	carries(t, calm, "tenant=blue:NoExecute")
	remembers(t, node, map[string]string{"dedicated": "ci", "example.com/other": "x", "tenant": "blue"})

	time.Sleep(time.Until(attack.began.Add(12 * time.Second)))
	require.Eventually(t, func() bool { return len(pauseEvents(t, fought)) > 0 }, settles, 20*time.Millisecond)
	removed, took := attack.stop()
	writes := records()
	steps := series(t, nodekeep.MetricsURL("capture"), "nodekeep_capture_steps_total") - before
	t.Logf("in %s the client removed the taint %d times; the record was written %d times; capture took %.0f steps on all Nodes",
		took.Round(time.Millisecond), removed, writes, steps)
	assert.Greater(t, removed, 3, "the client must have fought")
	assert.Less(t, removed, 20, "capture must add the taint less and less often")
	assert.Less(t, writes, 30, "and write the record no more often than that and the two edits call for")
	assert.Less(t, steps, 60.0)

	told := pauseEvents(t, fought)
	require.Len(t, told, 1, "one Event says it, not one for each time")
	assert.LessOrEqual(t, told[0].Count, int32(1))
	for _, side := range []string{`"nodekeep"`, `"tainter"`, "dedicated:NoSchedule"} {
		assert.Contains(t, told[0].Message, side)
	}
	assert.Empty(t, pauseEvents(t, calm))

	carries(t, fought, "dedicated=ci:NoSchedule") // after the pause that was running
	require.Eventually(t, func() bool { return series(t, nodekeep.MetricsURL("capture"), pausedItems) == 0 }, settles, 20*time.Millisecond)
	quiet(t, fought, func() bool { return slices.Contains(taintsOf(getNode(t, fought)), "dedicated=ci:NoSchedule") })
}

func TestCaptureAddsARulesTaintAtOnceThatAnOperatorRemovesTwice(t *testing.T) {
	const name = "fights-operator"
	followsTwoRules(t, name)
	for range 2 {
		removed := time.Now()
		removeTaint(t, name, "dedicated=ci:NoSchedule", "kubectl-taint")
		carries(t, name, "dedicated=ci:NoSchedule")
		t.Logf("added again after %s", time.Since(removed).Round(time.Millisecond))
		assert.Zero(t, series(t, nodekeep.MetricsURL("capture"), pausedItems), "nothing must wait for an operator")
	}
	unlabel(t, name, "dedicated") // and back: the operator's mind changes, not somebody else's
	require.Eventually(t, func() bool { return len(taintsOf(getNode(t, name))) == 0 }, settles, 10*time.Millisecond)
	label(t, name, map[string]string{"dedicated": "ci"})
	carries(t, name, "dedicated=ci:NoSchedule")
	assert.Empty(t, pauseEvents(t, name))
}

func TestANodeThatMissesAPausedTaintStaysGated(t *testing.T) {
	const name = "fights-gated"
	followsTwoRules(t, name)
	attack := removeTaintAtOnce(t, name, "dedicated=ci:NoSchedule", "tainter")
	require.Eventually(t, func() bool { return len(pauseEvents(t, name)) > 0 }, settles, 20*time.Millisecond)
	stop := watchNodes(t)
	taint(t, name, "nodekeep.dev/restoring=:NoSchedule")
	label(t, name, map[string]string{"tenant": "blue"}) // which is followed behind the gate
	carries(t, name, "tenant=blue:NoExecute")
	attack.stop()
	carries(t, name, "dedicated=ci:NoSchedule")
	complete(t, name, map[string]string{"dedicated": "ci"})
	wasGated := false
	for _, state := range stop() {
		if state.Name != name {
			continue
		}
		lifted := wasGated && !gated(state)
		wasGated = gated(state)
		if lifted {
			assert.Contains(t, taintsOf(state), "dedicated=ci:NoSchedule", "version %s: the gate must stay until the taint is there", state.ResourceVersion)
		}
	}
}

func TestTheRecordOfALabelThatChangesAllTheTimeIsWrittenOnceASecond(t *testing.T) {
	node := remembered(t, "fights-busy", map[string]string{"example.com/load": "start"})
	records := countWrites(t, node.Name)
	began := time.Now()
	last, changes := changeAllTheTime(t, node.Name, "example.com/load", 20*time.Millisecond, func(changes int) bool {
		return changes >= 200 && time.Since(began) > 10*time.Second
	})
	took := time.Since(began)
	remembers(t, node, map[string]string{"example.com/load": last})
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
		withoutWebhook(t, func() { lastOfManyChanges(t, "fights-deleted-unseen") })
	})
}

func lastOfManyChanges(t *testing.T, name string) {
	t.Helper()
	node := remembered(t, name, map[string]string{"example.com/load": "start"})
	last, changes := changeAllTheTime(t, name, "example.com/load", 20*time.Millisecond, func(changes int) bool { return changes == 150 })
	deleteNode(t, name)
	record := remembers(t, node, map[string]string{"example.com/load": last})
	t.Logf("the last of %d changes is in the record, deleted: %t", changes, !record.DeletedAt.IsZero())
}

// A rule's taint follows a label whose record is written once a second: neither waits for the other for ever.
func TestARulesTaintFollowsALabelThatChangesAllTheTime(t *testing.T) {
	const name = "fights-followed"
	followsTwoRules(t, name)
	began, seen := time.Now(), map[string]bool{}
	last, changes := changeAllTheTime(t, name, "dedicated", 50*time.Millisecond, func(int) bool {
		for _, text := range taintsOf(getNode(t, name)) {
			seen[text] = true
		}
		return len(seen) > 3 || time.Since(began) > 3*settles
	})
	t.Logf("the taint followed %d of %d changes in %s", len(seen)-1, changes, time.Since(began).Round(time.Millisecond))
	assert.Greater(t, len(seen), 3, "the taint must follow while the label changes, not only at the end")
	carries(t, name, "dedicated="+last+":NoSchedule")
	assert.Empty(t, pauseEvents(t, name), "a taint that follows a label is no fight")
}

func TestTheLastOfManyChangesIsRecordedByACaptureThatWasKilled(t *testing.T) {
	captureThrough(t)
	node := remembered(t, "fights-killed", map[string]string{"example.com/load": "start"})
	last, _ := changeAllTheTime(t, node.Name, "example.com/load", 20*time.Millisecond, func(changes int) bool { return changes == 150 })
	killCapture(t)
	require.NoError(t, nodekeep.StopCapture())
	require.NoError(t, nodekeep.StartCapture(t.Context()))
	remembers(t, node, map[string]string{"example.com/load": last})
}

// followsTwoRules has Nodes whose label the first of twoRules turned into a taint, and one capture that acts at once.
func followsTwoRules(t testing.TB, names ...string) {
	t.Helper()
	underRules(t)
	require.NoError(t, nodekeep.WritePolicy(twoRules))
	captureThrough(t)
	for _, name := range names {
		remembered(t, name, map[string]string{"dedicated": "ci"})
		carries(t, name, "dedicated=ci:NoSchedule")
	}
}

// carries waits until a Node carries a taint.
func carries(t testing.TB, name, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Contains(taintsOf(getNode(t, name)), text) }, 2*settles, 10*time.Millisecond,
		"node %s must carry the taint %s", name, text)
}

// withoutTaint is the patch that removes a taint from exactly this state of a Node.
func withoutTaint(node *corev1.Node, text string) ([]byte, error) {
	rest := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(taint corev1.Taint) bool { return taint.ToString() == text })
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": rest},
	})
}

// removeTaint removes a taint, as the field manager of that name.
func removeTaint(t testing.TB, name, text, manager string) {
	t.Helper()
	require.Eventually(t, func() bool {
		body, err := withoutTaint(getNode(t, name), text)
		if err != nil {
			return false
		}
		_, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
		return err == nil
	}, settles, 10*time.Millisecond)
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
			if !ok || event.Type == watch.Deleted || !slices.Contains(taintsOf(node), text) {
				continue
			}
			body, err := withoutTaint(node, text)
			if err != nil {
				continue
			}
			if _, err := nodekeep.Admin.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager}); err == nil {
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
		}, settles, 5*time.Millisecond, "the watch must arrive at this moment")
		watcher.Stop()
		<-ended
		return count
	}
}

// changeAllTheTime gives a label a new value so often, or as fast as the API server answers, until that is enough, and
// returns the last one.
func changeAllTheTime(t testing.TB, name, key string, every time.Duration, enough func(changes int) bool) (last string, changes int) {
	t.Helper()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for !enough(changes) {
		<-ticker.C
		changes++
		last = fmt.Sprintf("v%d", changes)
		label(t, name, map[string]string{key: last})
	}
	return last, changes
}

func pauseEvents(t testing.TB, node string) []corev1.Event {
	t.Helper()
	events, err := nodekeep.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + node + ",reason=" + capture.ItemPaused})
	require.NoError(t, err)
	return events.Items
}
