package integration

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// eachNode calls do for every name, some at a time.
func eachNode(names []string, do func(name string)) { harness.Each(names, 16, do) }

func TestTwoHundredNodesDeletedAndRegisteredInParallelAreComplete(t *testing.T) {
	const count = 200
	names := make([]string, count)
	want := map[string]map[string]string{}
	for n := range names {
		names[n] = fmt.Sprintf("fleet-%03d", n)
		want[names[n]] = map[string]string{"dedicated": "ci", "example.com/rack": fmt.Sprintf("r%d", n%7), worker: ""}
	}
	eachNode(names, func(name string) {
		node := nodekeep.Register(t, name)
		change := map[string]any{}
		for key, value := range want[name] {
			change[key] = value
		}
		nodekeep.Label(t, name, change)
		nodekeep.WaitRecorded(t, node, want[name])
	})

	watched := nodekeep.WatchNodes(t)
	stopRecords := watchRecords(t)
	started, uncalled := time.Now(), failedOpen(t)
	var complete atomic.Int64
	eachNode(names, func(name string) {
		nodekeep.DeleteNode(t, name)
		node := nodekeep.Register(t, name)
		if harness.HasAll(node.Labels, map[string]string{"dedicated": "ci", "example.com/rack": want[name]["example.com/rack"]}) {
			complete.Add(1)
		}
		assert.True(t, policy.DefaultGate.Holds(node.Spec.Taints), name)
	})
	uncalled = failedOpen(t) - uncalled // a busy machine answers too late
	assert.GreaterOrEqual(t, int(complete.Load())+uncalled, count, "the others are complete in the CREATE")
	back := 0
	for _, name := range names {
		nodekeep.WaitRestored(t, name, want[name])
		back++
	}
	t.Logf("%d of %d Nodes registered complete, %s after the first deletion", back, count, time.Since(started).Round(time.Millisecond))
	for _, node := range watched.Stop() {
		labels, ours := want[node.Name]
		if !ours {
			continue
		}
		if !harness.HasAll(node.Labels, labels) {
			assert.True(t, policy.DefaultGate.Holds(node.Spec.Taints), "%s was seen without the gate and with %v", node.Name, node.Labels)
		}
	}
	for _, record := range stopRecords() {
		if labels, ours := want[record.Node]; ours {
			assert.Equal(t, labels, record.Items(), "a record of %s changed its labels", record.Node)
		}
	}
	for _, name := range names {
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), want[name])
	}
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
