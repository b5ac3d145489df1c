//go:build oldcore

package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// laggingRecords has not heard of its own writes yet.
type laggingRecords struct{ *store.Memory }

func (laggingRecords) Get(string) (store.Entry, error) { return store.Entry{}, store.ErrNotFound }

// That a record is not in memory does not say that somebody has removed it: one whose write was not answered comes there late.
func TestTheEndOfAnObjectCountsAlsoWhileItsRecordIsNotInMemoryYet(t *testing.T) {
	s := newSweeping(t, 1, remembered("a", "10", labels{"k": "v"}, goneSince(earlier)))
	s.Records = laggingRecords{&s.records.Memory}
	s.sightings.went(slimOf(node("b", "20", labels{"k": "v", "edited": "1"})))
	entry, err := s.records.GetLive(t.Context(), "n1")
	require.NoError(t, err)
	s.sightings.hasRecord("n1", retained(entry.Record))

	require.NoError(t, s.process(t.Context(), "n1"))
	entry, err = s.records.GetLive(t.Context(), "n1")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"k": "v", "edited": "1"}, entry.Record.Items)

	s.sightings.went(slimOf(node("c", "30", labels{"k": "v", "again": "1"})))
	s.sightings.hasRecord("n1", retained(entry.Record))
	require.NoError(t, s.records.Delete(t.Context(), "n1", entry.Version))
	require.NoError(t, s.process(t.Context(), "n1"))
	_, err = s.records.GetLive(t.Context(), "n1")
	assert.ErrorIs(t, err, store.ErrNotFound, "what was removed is not made again")
}

// A look at a deletion that did not come true may be of a state that differs from the one that capture knows in nothing but its
// version, and so may all that come after it.
func TestAGatedNodeWhoseDeletionDidNotComeTrueIsDealtWithAtItsNextHeartbeat(t *testing.T) {
	at := func(version string) *Node { return node("b", version, labels{"k": "v", "x": "1"}, gated) }
	looked := noted(remembered("a", "10", labels{"k": "v"}), at("30"), policy.Default(), now)
	require.NotNil(t, looked)
	s := newSweeping(t, 1, looked)
	s.Events = record.NewFakeRecorder(10)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	s.queue = queue

	assert.True(t, s.sightings.lives(slimOf(at("29"))))
	require.NoError(t, s.process(t.Context(), "n1"))
	entry, err := s.records.GetLive(t.Context(), "n1")
	require.NoError(t, err)
	assert.Equal(t, types.UID("a"), entry.Record.UID, "what the record knows better is left alone")
	assert.True(t, s.sightings.lives(slimOf(at("30"))), "a heartbeat")
	assert.Zero(t, queue.Len())

	assert.False(t, s.sightings.lives(slimOf(at("31"))), "once is enough")
	assert.True(t, s.sightings.isOvertaken(at("29")), "it came while the older one was looked at: look again")
	assert.False(t, s.sightings.isOvertaken(at("31")))
}
