package capture

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// itemsOf returns how many items of all kinds had an outcome.
func itemsOf(t *testing.T, r *replica, outcome itemOutcome) (total float64) {
	t.Helper()
	for kind, outcomes := range itemOutcomes() {
		if slices.Contains(outcomes, outcome) {
			total += valueOf(t, r.Metrics.items.WithLabelValues(kind, string(outcome)))
		}
	}
	return total
}

func TestWhatIsRefusedIsCountedInASeriesThatWasThereFromTheStart(t *testing.T) {
	w := newCluster(t, "", node("a", "10", nil))
	r := w.leads()
	series := func() int {
		found := make(chan prometheus.Metric, 100)
		r.Metrics.items.Collect(found)
		return len(found)
	}
	known, seen := series(), observe.FromNode(node("a", "10", nil))
	for _, item := range []string{"k", "@a.io/x", "dedicated:NoSchedule"} {
		r.reportRefused(seen, item, errors.New("no"))
	}
	assert.Equal(t, 3, int(itemsOf(t, r, itemRefused)))
	assert.Equal(t, known, series())
}

func valueOf(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	var metric dto.Metric
	require.NoError(t, counter.Write(&metric))
	return metric.GetCounter().GetValue()
}

func TestANodeWhoseWorkPanicsIsRetriedAndAllOthersAreRecorded(t *testing.T) {
	w := newCluster(t, "")
	for _, name := range []string{"bad", "good", "better"} {
		w.register(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: labels{"dedicated": "ci"}}})
	}
	var log bytes.Buffer
	r := w.leader(func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	r.sees = func(name string, live bool, _ *store.Entry, err error) error {
		if name == "bad" && !live {
			panic("record of bad")
		}
		return err
	}
	for range 2 {
		failed := r.works()
		require.Len(t, failed, 1)
		require.ErrorContains(t, failed["bad"], "panic: record of bad")
		r.resync(0) // it does not panic, and leaves the Node to the worker
	}
	for _, name := range []string{"good", "better"} {
		entry, err := w.Get(name)
		require.NoError(t, err)
		assert.Equal(t, labels{"dedicated": "ci"}, entry.Record.Items())
	}
	assert.Equal(t, 2, int(valueOf(t, r.Metrics.errors.WithLabelValues(panicked))))
	assert.Contains(t, log.String(), `"level":"ERROR","msg":"work on one object panicked; please report this with the stack","work":"reconcile node","node":"bad"`)
	assert.Contains(t, log.String(), "contain_test.go", "the log holds the stack")
	_, current, _ := r.observations.counts()
	assert.Equal(t, 2, current, "a Node that is not reconciled is not current")

	r.sees = nil
	require.Empty(t, r.works())
	_, err := w.Get("bad")
	assert.NoError(t, err, "the name is free again")
}

func TestATransformThatPanicsLeavesANodeOfWhichNothingIsConcluded(t *testing.T) {
	unreadable := stripNodeWith(func(*observe.Node) *observe.CompactNode { panic("cannot read") }, node("a", "20", labels{"k": "v"}), policy.Default().Annotations())
	assert.Equal(t, "n1", unreadable.Name())
	assert.Equal(t, types.UID("a"), unreadable.UID())
	assert.Equal(t, "20", unreadable.GetObjectMeta().GetResourceVersion())
	require.ErrorContains(t, unreadable.Node().Fault, "cannot read")

	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}), node("a", "10", labels{"k": "v"}))
	r := w.leads()
	prev := w.record()
	require.True(t, r.observations.observeLive(unreadable))
	r.Enqueue("n1")
	require.ErrorContains(t, r.works()["n1"], "cannot read")
	assert.Equal(t, prev, w.record(), "labels that cannot be read were not removed")

	w.label("k", "w")
	require.Empty(t, r.works())
	assert.Equal(t, labels{"k": "w"}, w.record().Items(), "the next state that can be read counts")

	r.observations.observeDeleted(unreadable)
	r.Enqueue("n1")
	require.Empty(t, r.works(), "a last state that cannot be read blocks nothing")
}

func TestAHandlerThatPanicsEndsNoProcess(t *testing.T) {
	held := &silentInformer{}
	exploding := func(string) { panic("queue") }
	panicked := map[string]int{}
	_, err := addNodeHandlers(held, newCluster(t, "").replica().observations, exploding, func(node string, err error) {
		require.ErrorContains(t, err, "queue")
		panicked[node]++
	})
	require.NoError(t, err)
	first, second := observe.CompactNodeOf(observe.FromNode(node("a", "10", nil))), observe.CompactNodeOf(observe.FromNode(node("a", "20", labels{"k": "v"})))
	held.handler.OnAdd(first, true)
	held.handler.OnUpdate(first, second)
	held.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "n1", Obj: second})
	assert.Equal(t, map[string]int{"n1": 3}, panicked)
}
