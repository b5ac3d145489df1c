package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// measured is a series, and what it was when the test began.
type measured struct {
	process, series string
	prev            float64
}

func measure(t *testing.T, process, series string) measured {
	t.Helper()
	return measured{process, series, metric(t, process, series)}
}

func (m measured) rose(t *testing.T) float64 {
	t.Helper()
	return metric(t, m.process, m.series) - m.prev
}

// comesTo waits until a series has risen by so much.
func (m measured) comesTo(t *testing.T, rise float64) {
	t.Helper()
	harness.Eventually(t, func() bool { return m.rose(t) == rise }, settles, 20*time.Millisecond, "%s must rise by %v from %v", m.series, rise, m.prev)
}

func TestMetricsCountEditsFlapsRestoresAndTimes(t *testing.T) {
	const name = "moving-1"
	captureLeads(t) // only the leader measures
	lag := measure(t, "capture", "nodekeep_capture_lag_seconds_count ")
	nodes := measure(t, "capture", "nodekeep_capture_nodes ")
	current := measure(t, "capture", "nodekeep_capture_nodes_current ")
	changed := time.Now()
	harness.Eventually(t, func() bool { // a capture that has just started has every Node before it
		nodesBefore, currentBefore := nodes.prev, current.prev
		nodes, current = measure(t, nodes.process, nodes.series), measure(t, current.process, current.series)
		if nodes.prev != nodesBefore || current.prev != currentBefore || current.prev == 0 && nodes.prev > 0 {
			changed = time.Now()
		}
		return time.Since(changed) > 2*time.Second
	}, settles, 50*time.Millisecond)
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1", worker: ""})
	nodes.comesTo(t, 1)
	current.comesTo(t, 1)
	harness.Eventually(t, func() bool { return lag.rose(t) > 0 }, settles, 20*time.Millisecond)
	bytesAreThoseOfTheAPIServer(t)

	changes := measure(t, "capture", `nodekeep_capture_items_total{kind="label",outcome="recorded"}`)
	flaps := measure(t, "capture", `nodekeep_capture_items_total{kind="label",outcome="flapped"}`)
	lag = measure(t, "capture", "nodekeep_capture_lag_seconds_count ")
	node := nodekeep.Node(t, name)
	for _, value := range []string{"2", "1", "3"} {
		nodekeep.Label(t, name, map[string]any{"a": value})
		nodekeep.WaitRecorded(t, node, map[string]string{"a": value, worker: ""})
	}
	changes.comesTo(t, 3)
	flaps.comesTo(t, 1) // 3 is news
	lag.comesTo(t, 3)

	gates := measure(t, "capture", "nodekeep_capture_gated_duration_seconds_count ")
	slept := measure(t, "capture", "nodekeep_capture_gated_duration_seconds_sum ")
	given := measure(t, "capture", `nodekeep_capture_items_total{kind="label",outcome="restored"}`)
	restores := measure(t, "webhook", `nodekeep_webhook_request_duration_seconds_count{review="restore"}`)
	deletions := measure(t, "webhook", `nodekeep_webhook_request_duration_seconds_count{review="deletion"}`)
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	nodekeep.WaitRestored(t, name, map[string]string{"a": "3", worker: ""})
	given.comesTo(t, 1)
	gates.comesTo(t, 1)
	restores.comesTo(t, 1)
	deletions.comesTo(t, 1)
	assert.Positive(t, slept.rose(t))
	t.Logf("the Node was seen behind the gate for %.3f s", slept.rose(t))
	current.comesTo(t, 1)
	flaps.comesTo(t, 1) // a restored item is no flap
	nodekeep.DeleteNode(t, name)
	nodes.comesTo(t, 0)
	current.comesTo(t, 0)
}

func TestMetricsShowANodeThatWaitsBehindTheGate(t *testing.T) {
	const name = "waiting-1"
	captureLeads(t)
	nodes := measure(t, "capture", "nodekeep_capture_nodes ")
	current := measure(t, "capture", "nodekeep_capture_nodes_current ")
	gated := measure(t, "capture", "nodekeep_capture_nodes_gated ")
	unreadable := measure(t, "capture", `nodekeep_store_records{state="unreadable"}`)
	putRaw(t, name, "}garbage{")
	unreadable.comesTo(t, 1)
	nodekeep.RegisterNode(t, tainted(name, gate))
	nodes.comesTo(t, 1)
	gated.comesTo(t, 1)
	current.comesTo(t, 0)
	waited := measure(t, "capture", "nodekeep_capture_longest_gated_seconds ")
	time.Sleep(200 * time.Millisecond)
	assert.GreaterOrEqual(t, waited.rose(t), 0.2)

	require.NoError(t, nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Delete(t.Context(), store.Name(name), metav1.DeleteOptions{}))
	nodekeep.WaitRestored(t, name, nil)
	gated.comesTo(t, 0)
	current.comesTo(t, 1)
	unreadable.comesTo(t, 0)
	nodekeep.DeleteNode(t, name)
	nodes.comesTo(t, 0)
}

// bytesAreThoseOfTheAPIServer waits until both processes know how large the records are.
func bytesAreThoseOfTheAPIServer(t *testing.T) {
	t.Helper()
	harness.Eventually(t, func() bool {
		records, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel + "=true"})
		require.NoError(t, err)
		var all, largest int
		for _, cm := range records.Items {
			size := len(cm.Data[store.DataKey]) + len(cm.Data[store.QuarantinedKey]) + len(cm.Data[store.EarlierKey])
			all, largest = all+size, max(largest, size)
		}
		return !slices.ContainsFunc([]string{"webhook", "capture"}, func(process string) bool {
			return metric(t, process, "nodekeep_store_records_bytes ") != float64(all) || metric(t, process, "nodekeep_store_largest_record_bytes ") != float64(largest)
		})
	}, settles, 50*time.Millisecond)
}
