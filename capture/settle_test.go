package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
