package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// patience is how long a read from memory may take to show what another client did.
const patience = 3 * time.Minute

// Store is what the contract is about, and two hooks to play another client that has access to the records.
type Store interface {
	Get(node string) (store.Entry, error)
	GetFromAPI(ctx context.Context, node string) (store.Entry, error)
	Put(ctx context.Context, r record.Record, version string) (store.Entry, error)
	Delete(ctx context.Context, node, version string) error
	// Tamper puts any bytes in the place of a Node's record, whether there is one or not.
	Tamper(node string, data []byte)
	// Remove takes the record of a Node away, if there is one.
	Remove(node string)
}

// subject is a Store with the assertions that the contract is written in.
type subject struct {
	Store
	t    *testing.T
	node string
}

// record returns a record of the Node with one label that distinguishes records.
func (s subject) record(value string) record.Record { return s.recordOf("dedicated", value) }

// recordOf returns a record of the Node with these pairs of a key and a value.
func (s subject) recordOf(pairs ...string) record.Record {
	items := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		items[pairs[i]] = pairs[i+1]
	}
	return record.New(s.node, record.Object{UID: "uid-1", Version: 81234}, items)
}

// put writes a record and requires that it worked.
func (s subject) put(r record.Record, version string) store.Entry {
	s.t.Helper()
	entry, err := s.Put(s.t.Context(), r, version)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, entry.Version)
	return entry
}

// conflicts asserts that a write is refused because another client was faster.
func (s subject) conflicts(r record.Record, version string) {
	s.t.Helper()
	entry, err := s.Put(s.t.Context(), r, version)
	require.ErrorIs(s.t, err, store.ErrConflict)
	assert.Zero(s.t, entry)
}

// remains asserts that a removal is refused because another client was faster.
func (s subject) remains(version string) {
	s.t.Helper()
	require.ErrorIs(s.t, s.Delete(s.t.Context(), s.node, version), store.ErrConflict)
}

// isGone asserts that there is no record, from memory too, now and while the watch brings what came before.
func (s subject) isGone() {
	s.t.Helper()
	missing := func() bool {
		got, err := s.Get(s.node)
		return errors.Is(err, store.ErrNotFound) && got.Version == ""
	}
	require.True(s.t, missing(), "what a store did itself it must see at once")
	_, err := s.GetFromAPI(s.t.Context(), s.node)
	require.ErrorIs(s.t, err, store.ErrNotFound)
	require.Never(s.t, func() bool { return !missing() }, 100*time.Millisecond, 5*time.Millisecond, "nothing brings it back")
}

// holds asserts that every way of reading shows the entry, now; from memory without its history.
func (s subject) holds(want store.Entry) {
	s.t.Helper()
	got, err := s.Get(s.node)
	require.NoError(s.t, err)
	s.holdsLive(want)
	want.Record.HistoryOmitted, want.Record.History = len(want.Record.History) > 0, nil
	assert.Equal(s.t, want.Record.HistoryOmitted, got.Record.HistoryOmitted)
	s.equal(want, got)
}

func (s subject) holdsLive(want store.Entry) {
	s.t.Helper()
	got, err := s.GetFromAPI(s.t.Context(), s.node)
	require.NoError(s.t, err)
	s.equal(want, got)
}

// read returns what each way of reading shows, now.
func (s subject) read() []store.Entry {
	s.t.Helper()
	fromMemory, err := s.Get(s.node)
	require.NoError(s.t, err)
	live, err := s.GetFromAPI(s.t.Context(), s.node)
	require.NoError(s.t, err)
	return []store.Entry{fromMemory, live}
}

func (s subject) equal(want, got store.Entry) {
	s.t.Helper()
	assert.Equal(s.t, want.Version, got.Version)
	assert.Equal(s.t, s.encoded(want.Record), s.encoded(got.Record))
	require.Equal(s.t, want.Record.Quarantined == nil, got.Record.Quarantined == nil)
	if want.Record.Quarantined != nil {
		prev, next := *want.Record.Quarantined, *got.Record.Quarantined
		if next.HistoryOmitted {
			prev.History = nil
		}
		assert.Equal(s.t, s.encoded(prev), s.encoded(next))
	}
	require.Len(s.t, got.Record.Earlier, len(want.Record.Earlier))
	for i, prev := range want.Record.Earlier {
		if got.Record.Earlier[i].HistoryOmitted {
			prev.History = nil
		}
		assert.Equal(s.t, s.encoded(prev), s.encoded(got.Record.Earlier[i]))
	}
	assert.False(s.t, got.Unlisted)
}

// lacks asserts that there is no record: live at once, from memory as soon as it knows.
func (s subject) lacks() {
	s.t.Helper()
	got, err := s.GetFromAPI(s.t.Context(), s.node)
	require.ErrorIs(s.t, err, store.ErrNotFound)
	assert.Zero(s.t, got)
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		got, err := s.Get(s.node) // one read: a watch that is late may still bring what was removed, after a read that showed nothing
		assert.ErrorIs(c, err, store.ErrNotFound)
		assert.Zero(c, got)
	}, patience, 5*time.Millisecond)
}

// unusable asserts that there is a record that nothing may be taken from. A live read shows it at once, memory as soon as it knows.
func (s subject) unusable() {
	s.t.Helper()
	s.becomes(store.ErrUnreadable)
	fromMemory, _ := s.Get(s.node)
	live, err := s.GetFromAPI(s.t.Context(), s.node)
	require.ErrorIs(s.t, err, store.ErrUnreadable)
	for _, got := range []store.Entry{fromMemory, live} {
		assert.Zero(s.t, got.Record, "nothing may be taken from it")
		assert.NotEmpty(s.t, got.Version, "so that one can tell whether it has changed")
	}
}

// becomes waits until a read from memory answers with the error; nil stands for a readable record.
func (s subject) becomes(want error) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		_, err := s.Get(s.node)
		assert.ErrorIs(c, err, want)
	}, patience, 5*time.Millisecond)
}

// encoded returns the record as it is stored; of one that was read without its history, without it.
func (s subject) encoded(r record.Record) string {
	s.t.Helper()
	r.HistoryOmitted = false
	data, err := record.Encode(r)
	require.NoError(s.t, err)
	return string(data)
}

// field returns one field of the record as it is stored, also one that this version does not know.
func (s subject) field(r record.Record, name string) string {
	s.t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(s.t, json.Unmarshal([]byte(s.encoded(r)), &fields))
	return string(fields[name])
}
