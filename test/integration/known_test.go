package integration

import (
	"context"
	"slices"
	"strings"
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
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// The record says which labels the Node has, a protected one among them; so nobody may ever see it without their taints.
func noWatcherSeesAKnownNodeWithoutItsTaints(t *testing.T) {
	const count = 200
	names := harness.Names("rules-known", count)
	labels := map[string]string{"dedicated": "ci", roleCI: ""}
	want := []string{"dedicated=ci:NoSchedule", "role=ci:NoExecute"}
	contains := func(node *corev1.Node) bool { return harness.Carries(node, want[0]) && harness.Carries(node, want[1]) }
	eachNode(names, func(name string) { nodekeep.RegisterRecorded(t, name, labels) })
	seen, records, uncalled := nodekeep.WatchNodes(t), watchRecords(t), failedOpen(t)
	var first atomic.Int64
	eachNode(names, func(name string) {
		nodekeep.DeleteNode(t, name)
		node := nodekeep.Register(t, name)
		if contains(node) && node.Labels["dedicated"] == "ci" {
			first.Add(1)
		}
		assert.True(t, policy.DefaultGate.Holds(node.Spec.Taints), name)
	})
	uids := map[types.UID]bool{}
	for _, name := range names {
		node := nodekeep.WaitRestored(t, name, labels)
		uids[node.UID] = true
		harness.Eventually(t, func() bool { return slices.Equal(ruleTaintsOf(t, name), want) }, settles, 10*time.Millisecond)
		assert.Equal(t, want, harness.TaintsOf(node))
		nodekeep.WaitRecorded(t, node, labels)
	}
	seen.Stop()
	uncalled = failedOpen(t) - uncalled
	bare := 0 // Nodes that were seen without their taints, for a moment
	for _, name := range names {
		states := slices.DeleteFunc(seen.States(name), func(s harness.State) bool { return !uids[s.UID] })
		require.NotEmpty(t, states, name)
		for _, state := range states {
			complete := contains(state.Node) && harness.HasAll(state.Labels, labels)
			assert.True(t, complete || policy.DefaultGate.Holds(state.Spec.Taints), "%s was seen without the gate and with %v", name, state.Labels)
		}
		if slices.ContainsFunc(states, func(s harness.State) bool { return !contains(s.Node) }) {
			bare++
		}
	}
	for _, record := range records() {
		if strings.HasPrefix(record.Node, "rules-known-") {
			assert.Equal(t, labels, record.Items(), "a record of %s changed its labels", record.Node)
		}
	}
	t.Logf("%d of %d CREATEs answered with the taints; %d Nodes were seen without them; the API server gave up %d calls", first.Load(), count, bare, uncalled)
	assert.GreaterOrEqual(t, int(first.Load())+uncalled, count, "a busy machine answers too late; those Nodes are gated")
	assert.LessOrEqual(t, bare, uncalled)
	assert.Equal(t, 5, bareControl(t, names[:5], contains), "without webhook and gate, the watch shows Nodes without their taints")
}

// failedOpen counts the calls of webhooks that the API server has given up so far, to go on without them.
func failedOpen(t *testing.T) int {
	return int(nodekeep.APIServerSeries(t).Sum("apiserver_admission_webhook_fail_open_count"))
}

// bareControl registers Nodes again with the webhook down and the gate switched off, waits until capture has made them right,
// and counts those that were seen otherwise before.
func bareControl(t *testing.T, names []string, right func(*corev1.Node) bool) (bare int) {
	t.Helper()
	nodekeep.WithoutWebhook(t, func() {
		withoutGate(t, func() {
			for _, name := range names {
				nodekeep.DeleteNode(t, name)
			}
			seen := nodekeep.WatchNodes(t)
			for _, name := range names {
				nodekeep.Register(t, name)
			}
			for _, name := range names {
				harness.Eventually(t, func() bool { return right(nodekeep.Node(t, name)) }, settles, 10*time.Millisecond)
			}
			seen.Stop()
			for _, name := range names {
				if slices.ContainsFunc(seen.States(name), func(s harness.State) bool { return !right(s.Node) && !policy.DefaultGate.Present(s.Spec.Taints) }) {
					bare++
				}
			}
		})
	})
	return bare
}

// withoutGate does something while the gate policy is switched off; the webhook must be down.
func withoutGate(t *testing.T, fn func()) {
	t.Helper()
	require.NoError(t, nodekeep.GateOff(t.Context()))
	defer func() {
		require.NoError(t, nodekeep.GateOn(context.WithoutCancel(t.Context())))
		nodekeep.WaitGating(t, true)
	}()
	nodekeep.WaitGating(t, false)
	fn()
}

// watchRecords collects every state of every record from now on, until stop is called.
func watchRecords(t *testing.T) (stop func() []record.Record) {
	t.Helper()
	w, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
	require.NoError(t, err)
	var seen []record.Record
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if cm, ok := event.Object.(*corev1.ConfigMap); ok {
				if found, err := record.Decode([]byte(cm.Data[store.DataKey])); err == nil {
					seen = append(seen, found)
				}
			}
		}
	}()
	return func() []record.Record {
		time.Sleep(200 * time.Millisecond)
		w.Stop()
		<-done
		return seen
	}
}
