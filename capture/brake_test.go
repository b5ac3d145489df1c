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

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

func TestCorrectionsAreCountedOverAnHour(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	minute := func(ago time.Duration) int64 { return now.Add(-ago).Unix() / 60 }
	text := fmt.Sprintf(`{"%d": 3, "%d": 4, "%d": 100, "%d": -7, "%d": 50}`, minute(0), minute(59*time.Minute), minute(61*time.Minute), minute(time.Minute), minute(-10*time.Minute))
	count, ok := correctedBy(text, now)
	require.True(t, ok)
	assert.Equal(t, 7, count.nodes())
	assert.True(t, count.mayCorrect(80), "the eighth of eighty")
	assert.False(t, count.mayCorrect(70))
	again, ok := correctedBy(count.andOneMore(now), now)
	require.True(t, ok)
	assert.Equal(t, 8, again.nodes())

	none, ok := correctedBy("", now)
	assert.True(t, ok && none.mayCorrect(1), "a single Node may always be corrected")
	_, ok = correctedBy("no count", now)
	assert.False(t, ok)
}

func TestAnAcceptanceOfCorrectionsCountsForAnHour(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for text, accepted := range map[string]bool{
		now.Format(time.RFC3339):                        true,
		now.Add(-59 * time.Minute).Format(time.RFC3339): true,
		now.Add(-61 * time.Minute).Format(time.RFC3339): false,
		now.Add(24 * time.Hour).Format(time.RFC3339):    false,
		"yes": false, "": false,
	} {
		assert.Equal(t, accepted, acceptedAt(text, now), text)
	}
}

// staleNodes are Nodes that were restored long ago from records that say otherwise now.
func staleNodes(w *cluster, count int) {
	for i := range count {
		name := fmt.Sprintf("stale-%d", i)
		r := remembered(types.UID("before "+name), 10, labels{"rack": "right"})
		r.Node = name
		w.holds(r)
		w.register(node("", "20", labels{"rack": "wrong"}, called(name), stamped(record.Stamp{Given: map[string]record.Given{"rack": {Value: "wrong", From: 5}}}), func(n *corev1.Node) {
			n.CreationTimestamp = metav1.NewTime(w.clock.Add(-freshFor))
		}))
	}
}

func (c *cluster) corrected(t *testing.T, of int) (right int) {
	t.Helper()
	for i := range of {
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
	state, err := r.configMaps.Get(t.Context(), store.AcceptedName)
	require.NoError(t, err)
	require.NoError(t, r.configMaps.Set(t.Context(), store.AcceptedName, state != nil, map[string]*string{key: &value}))
}

func TestOneNodeInTenIsCorrectedWithinAnHourWithoutAnOperatorsWord(t *testing.T) {
	const all = 30
	w := newCluster(t, "")
	staleNodes(w, all)
	r := w.leads()
	assert.Equal(t, all/mostCorrected, w.corrected(t, all))
	assert.Equal(t, all-all/mostCorrected, r.brake.nodes(r.Now()), "the others wait")
	said := 0
	for _, reason := range r.reported() {
		if reason == ChangesHeld {
			said++
		}
	}
	assert.Equal(t, 1, said, "one Event for all")

	other := w.leader(func(o *Options) { o.Client = r.Client })
	require.Empty(t, other.works(), "another process does not begin anew")
	assert.Equal(t, all/mostCorrected, w.corrected(t, all))
	w.passes(correctedWithin + time.Minute)
	other.enqueueAll()
	other.reconciles()
	assert.Equal(t, 2*all/mostCorrected, w.corrected(t, all), "the next hour")

	other.state(t, store.CorrectionsAccepted, w.now().Format(time.RFC3339))
	w.passes(2 * brakeAgain)
	other.enqueueAll()
	other.reconciles()
	assert.Equal(t, all, w.corrected(t, all), "an operator has accepted it")
	assert.Zero(t, other.brake.nodes(other.Now()))
}

func TestANodeThatHasJustRegisteredIsCorrectedAtOnce(t *testing.T) {
	const all = 30
	w := newCluster(t, "")
	staleNodes(w, all)
	for i := range all {
		n, err := w.get(fmt.Sprintf("stale-%d", i))
		require.NoError(t, err)
		n.CreationTimestamp = metav1.NewTime(w.clock.Add(-freshFor + time.Second))
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
	w.passes(correctedWithin + time.Minute)
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
