package capture

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/brake"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// staleNodes are Nodes that were restored long ago from records that say otherwise now.
func staleNodes(w *cluster, count int) {
	for i := range count {
		name := fmt.Sprintf("stale-%d", i)
		r := remembered(types.UID("before "+name), 10, labels{"rack": "right"})
		r.Node = name
		w.holds(r)
		w.register(node("", "20", labels{"rack": "wrong"}, called(name), stamped(record.Stamp{Given: map[string]record.Given{"rack": {Value: "wrong", From: 5}}}), func(n *corev1.Node) {
			n.CreationTimestamp = metav1.NewTime(w.clock.Add(-brake.NewNodePeriod))
		}))
	}
}

func (c *cluster) corrected(t *testing.T, total int) (right int) {
	t.Helper()
	for i := range total {
		n, err := c.get(fmt.Sprintf("stale-%d", i))
		require.NoError(t, err)
		if n.Labels["rack"] == "right" {
			right++
		}
	}
	return right
}

// state writes a key of the ConfigMap in which replicas keep their state.
func (r *replica) state(t *testing.T, key, value string) {
	t.Helper()
	state, err := r.notes.Get(t.Context(), store.AcceptedConfigMap)
	require.NoError(t, err)
	require.NoError(t, r.notes.Set(t.Context(), store.AcceptedConfigMap, state != nil, map[string]*string{key: &value}))
}

func TestOneNodeInTenIsCorrectedWithinAnHourWithoutAnOperatorsWord(t *testing.T) {
	const all = 30
	w := newCluster(t, "")
	staleNodes(w, all)
	r := w.leads()
	assert.Equal(t, all/brake.MaxCorrectedDivisor, w.corrected(t, all))
	assert.Equal(t, all-all/brake.MaxCorrectedDivisor, r.brake.HeldNodes(), "the others wait")
	out := 0
	for _, reason := range r.reported() {
		if reason == brake.ChangesHeld {
			out++
		}
	}
	assert.Equal(t, 1, out, "one Event for all")

	second := w.leader(func(o *Options) { o.Client = r.Client })
	require.Empty(t, second.works(), "another process does not begin anew")
	assert.Equal(t, all/brake.MaxCorrectedDivisor, w.corrected(t, all))
	w.passes(brake.Window + time.Minute)
	second.enqueueAll()
	second.reconciles()
	assert.Equal(t, 2*all/brake.MaxCorrectedDivisor, w.corrected(t, all), "the next hour")

	second.state(t, store.CorrectionsAccepted, w.now().Format(time.RFC3339))
	w.passes(2 * brake.RetryInterval)
	second.enqueueAll()
	second.reconciles()
	assert.Equal(t, all, w.corrected(t, all), "an operator has accepted it")
	assert.Zero(t, second.brake.HeldNodes())
}

func TestANodeThatHasJustRegisteredIsCorrectedAtOnce(t *testing.T) {
	const all = 30
	w := newCluster(t, "")
	staleNodes(w, all)
	for i := range all {
		n, err := w.get(fmt.Sprintf("stale-%d", i))
		require.NoError(t, err)
		n.CreationTimestamp = metav1.NewTime(w.clock.Add(-brake.NewNodePeriod + time.Second))
		w.commit(n)
	}
	w.leads()
	assert.Equal(t, all, w.corrected(t, all))
}

func TestACountThatNobodyCanReadHoldsForAnHourAndIsWrittenAnew(t *testing.T) {
	w := newCluster(t, "")
	staleNodes(w, 1)
	r := w.leader()
	r.state(t, store.Corrected, "no count")
	require.Empty(t, r.works())
	assert.Zero(t, w.corrected(t, 1))
	w.passes(brake.Window + time.Minute)
	r.enqueueAll()
	r.reconciles()
	assert.Equal(t, 1, w.corrected(t, 1))
}

func TestAnOperatorsWordCountsAlsoWhereTheCountCannotBeRead(t *testing.T) {
	w := newCluster(t, "")
	staleNodes(w, 30)
	r := w.leader()
	r.state(t, store.Corrected, "no count")
	r.state(t, store.CorrectionsAccepted, w.now().Format(time.RFC3339))
	require.Empty(t, r.works())
	assert.Equal(t, 30, w.corrected(t, 30))
}

// A worker that waited for the lock over the turn of a minute has an older time than the count.
func TestAWorkerThatWaitedKeepsWhatOthersCountedMeanwhile(t *testing.T) {
	w := newCluster(t, "")
	r := w.leads()
	later := w.now().Add(time.Minute)
	r.state(t, store.Corrected, fmt.Sprintf(`{"%d":1}`, later.Unix()/60))
	times := []time.Time{w.now(), later}
	r.brake.Live = func() int { return 100 }
	r.brake.Now = func() time.Time {
		now := times[0]
		times = times[len(times)-1:]
		return now
	}
	allowed, err := r.brake.ReserveCorrection(t.Context(), "n1", w.now().Add(-brake.NewNodePeriod))
	require.NoError(t, err)
	assert.True(t, allowed)
	state, err := r.notes.Get(t.Context(), store.AcceptedConfigMap)
	require.NoError(t, err)
	assert.Equal(t, 2, brake.CorrectedNodes(state.Data, later))
}
