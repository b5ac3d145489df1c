package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

func TestARecordThatMayNotBeWrittenKeepsNoNodeBehindTheGate(t *testing.T) {
	p := captureProxy(t)
	returning := recordedNodes(t, "no-record", 3, protected)
	deleteAll(t, returning.names)
	for _, name := range returning.names {
		harness.Eventually(t, func() bool { r, _ := nodekeep.Record(t, name); return !r.DeletedAt.IsZero() }, harness.Settles, 10*time.Millisecond)
	}
	nodekeep.WithoutCapture(t, func() {
		for _, name := range returning.names {
			nodekeep.Register(t, name)
			nodekeep.Label(t, name, map[string]string{"edit": "yes"}) // which is to be recorded before the gate is lifted
		}
		p.Break(proxy.Answer(proxy.RecordWrites, http.StatusForbidden, metav1.StatusReasonForbidden, 1)) // a quota, or the admission policy of another team
	})
	for _, name := range returning.names {
		nodekeep.WaitRestored(t, name, protected)
		r, _ := nodekeep.Record(t, name)
		assert.False(t, r.DeletedAt.IsZero(), "no record was written")
	}
	p.Break(nil)
	for _, name := range returning.names {
		nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, name), map[string]string{"edit": "yes", worker: ""})
	}
}

// Before removals were bounded, 1,650 of the longest keys filled a record for good.
func TestWhatClientsRemoveFillsNoRecord(t *testing.T) {
	const name, rounds, item = "churn-1", 9, 200
	domain := strings.Join([]string{strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63), strings.Repeat("d", 61)}, ".")
	nodekeep.RegisterRecorded(t, name, ordinary)
	for round := range rounds {
		set, remove := map[string]any{}, map[string]any{}
		for i := range item {
			key := fmt.Sprintf("%s/%030d-%028d", domain, round, i)
			set[key], remove[key] = "v", nil
		}
		items := func(count int) func() bool {
			return func() bool { r, _ := nodekeep.Record(t, name); return len(r.Items()) == count }
		}
		nodekeep.Label(t, name, set)
		require.Eventually(t, items(len(ordinary)+item), harness.Settles, 10*time.Millisecond, "round %d", round)
		nodekeep.Label(t, name, remove)
		require.Eventually(t, items(len(ordinary)), harness.Settles, 10*time.Millisecond, "round %d", round)
	}
	nodekeep.Label(t, name, map[string]string{"edit": "yes", worker: ""})
	want := map[string]string{"edit": "yes", worker: "", "dedicated": ordinary["dedicated"]}
	nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, name), want)
	assert.Less(t, len(nodekeep.RecordMap(t, name).Data["record.json"]), record.MaxBytes*8/10)

	nodekeep.DeleteNode(t, name)
	nodekeep.WithoutWebhook(t, func() {
		nodekeep.Register(t, name)
		nodekeep.WaitRestored(t, name, want)
	})
}

// A kubelet may change labels of its own Node that are not protected, and names any field manager.
func TestAKubeletThatFillsItsRecordWithRemovalsTakesNothingFromOperators(t *testing.T) {
	const name, rounds, item = "churn-2", 3, 120
	want := map[string]string{"dedicated": "ci", worker: ""}
	node := nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci", worker: "", "refused": "by-an-operator"})
	nodekeep.Label(t, name, map[string]any{"refused": nil})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), want)
	kubelet := nodekeep.Kubelet(t, node.Name).CoreV1().Nodes()
	for round := range rounds {
		set, remove := map[string]any{}, map[string]any{}
		for i := range item {
			key := fmt.Sprintf("churn.example.com/%d-%d", round, i)
			set[key], remove[key] = "v", nil
		}
		for _, change := range []struct {
			labels map[string]any
			items  int
		}{{set, len(want) + item}, {remove, len(want)}} {
			patch := harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": change.labels}})
			_, err := kubelet.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-label"})
			require.NoError(t, err)
			harness.Eventually(t, func() bool { r, _ := nodekeep.Record(t, name); return len(r.Items()) == change.items }, harness.Settles, 10*time.Millisecond)
		}
	}
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	returned := nodekeep.WaitRestored(t, name, want)
	assert.NotContains(t, returned.Labels, "refused", "what an operator removed stays removed")
}
