package capture

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// A write that was not answered reaches the cache late. So a record that is not in memory need not have been removed.
func TestTheLastStateOfAnObjectCountsWhileItsRecordIsNotInMemoryYet(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}, goneSince(earlier)))
	r := w.leads()
	r.sees = func(_ string, live bool, _ *store.Entry, err error) error {
		if !live {
			return store.ErrNotFound
		}
		return err
	}
	deleted := func(n *corev1.Node) {
		r.observations.observeDeleted(observe.CompactNodeOf(observe.FromNode(n)))
		r.observations.noteRecord("n1", w.record())
		r.Enqueue("n1")
	}
	deleted(node("b", "20", labels{"k": "v", "edited": "1"}))
	require.Empty(t, r.works())
	assert.Equal(t, labels{"k": "v", "edited": "1"}, w.record().Items())

	deleted(node("c", "30", labels{"k": "v", "again": "1"}))
	w.Remove("n1")
	require.Empty(t, r.works())
	_, err := w.Get("n1")
	assert.ErrorIs(t, err, store.ErrNotFound, "a record that was removed is not written again")
}

func TestADeletionThatAStandbyHoldsDoesNotBringBackARecordWhoseRetentionIsOver(t *testing.T) {
	w := newCluster(t, "", remembered("a", 5, labels{"k": "v"}, goneSince(earlier)))
	r := w.replica()
	require.Empty(t, r.works())
	r.observations.observeDeleted(observe.CompactNodeOf(observe.FromNode(node("a", "6", labels{"k": "v"})))) // the leader knows the object from a list, at version 5
	r.reconciles()
	require.True(t, r.Tracks("n1"), "it may have to be written yet")

	w.Remove("n1") // the leader has collected it
	r.reconciles()
	assert.False(t, r.Tracks("n1"))
	r.Lead()
	require.Empty(t, r.works())
	assert.Empty(t, w.NodeNames())
}

func TestADeletionAfterTheRecordWasRemovedCounts(t *testing.T) {
	w := newCluster(t, "", remembered("a", 5, labels{"k": "v"}, goneSince(earlier)))
	r := w.replica()
	w.register(node("b", "9", labels{"own": "1"})) // the record was removed a moment before, and the watch has not brought that
	require.Empty(t, r.works())
	w.Remove("n1")
	w.delete()
	r.Lead()
	require.Empty(t, r.works())
	assert.Equal(t, labels{"own": "1"}, w.record().Items())
}

// resetting returns a cluster whose Node is older than the versions of its record, for a capture that works by the clock.
func resetting(t *testing.T, holds *record.Record, n *corev1.Node, lead bool) (w *cluster, r *replica) {
	t.Helper()
	w = newCluster(t, "")
	w.holds(holds)
	r = w.replica(func(o *Options) { o.Now = time.Now })
	if lead {
		r.Lead()
	}
	w.register(n)
	return w, r
}

// runs has capture work for a time, and returns how often it has read the Node until then.
func (r *replica) runs(period time.Duration) (reads int) {
	r.cluster.t.Helper()
	for end := time.Now().Add(period); !time.Now().After(end); time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		for _, name := range r.standby.TakeOverdue(time.Now()) {
			r.Enqueue(name)
		}
		require.Empty(r.cluster.t, r.works())
	}
	return len(r.reads)
}

func TestARecordThatIsAheadOfWhatTheAPIServerGivesOutIsReset(t *testing.T) {
	for name, holds := range map[string]*record.Record{
		"of another object":     remembered("elsewhere", 999_999_999, labels{"k": "v", worker: ""}),
		"of this very object":   remembered("b", 999_999_999, labels{"k": "v", worker: ""}),
		"a little ahead":        remembered("elsewhere", 21, labels{"k": "v", worker: ""}),
		"also of later objects": remembered("elsewhere", 10, labels{"k": "v", worker: ""}, removed(30, "x"), later("elsewhere too", 30)),
	} {
		for role, lead := range map[string]bool{"by the leader": true, "by a standby without a leader": false} {
			t.Run(name+", "+role, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, r := resetting(t, holds, node("b", "20", labels{"k": "v"}, gated), lead)
					assert.Zero(t, r.runs(watchGrace-time.Second), "the watch has time to bring what is later")
					assert.Equal(t, 1, r.runs(10*time.Second))
					assert.Equal(t, labels{"k": "v", worker: ""}, w.record().Items())
					assert.Equal(t, types.UID("b"), w.record().Newest().UID)
					assert.Equal(t, labels{"k": "v", worker: ""}, w.shows(), "its Node waits for nothing")
					assert.Contains(t, r.reported(), RecordReset)

					w.label("k", "w")
					assert.Equal(t, 1, r.runs(time.Hour), "it is a record like any other")
					assert.Equal(t, labels{"k": "w", worker: ""}, w.record().Items())
					assert.NotContains(t, r.reported(), RecordReset)
				})
			})
		}
	}
}

func TestARecordThatIsRightIsNotResetWhileTheWatchIsLate(t *testing.T) {
	for name, live := range map[string]types.UID{"the Node has moved on": "b", "another object has the name now": "c"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := resetting(t, remembered(live, 30, labels{"k": "v"}), node("b", "20", labels{"k": "v"}), true)
				r.deaf = true
				w.register(node(live, "30", labels{"k": "v"}))
				assert.LessOrEqual(t, r.runs(time.Minute), int(time.Minute/watchGrace), "the reads are bounded")
				assert.Equal(t, record.Version(30), w.record().Newest().Version)
				assert.Empty(t, r.reported())
			})
		})
	}
}

func TestAUsualNodeIsNotReadBecauseOfItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := resetting(t, remembered("a", 10, labels{"k": "v"}), node("b", "120", labels{"k": "v"}), true)
		for range 50 {
			w.edit(func(*corev1.Node) {})
			r.Enqueue("n1")
			assert.Zero(t, r.runs(time.Second))
		}
	})
}
