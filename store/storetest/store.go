package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/store"
)

// patience is how long a read from memory may take to show what somebody else did.
const patience = 20 * time.Second

// Store is what the contract is about, and two hooks to play somebody else who has access to the records.
type Store interface {
	Get(node string) (store.Entry, error)
	GetLive(ctx context.Context, node string) (store.Entry, error)
	Put(ctx context.Context, record store.Record, version string) (store.Entry, error)
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

// record is a record of the Node with one label that tells records apart.
func (s subject) record(value string) store.Record {
	return store.Record{Node: s.node, UID: "uid-1", NodeResourceVersion: "81234", Items: map[string]string{"dedicated": value}}
}

// put writes a record and requires that it worked.
func (s subject) put(record store.Record, version string) store.Entry {
	s.t.Helper()
	entry, err := s.Put(s.t.Context(), record, version)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, entry.Version)
	return entry
}

// conflicts asserts that a write is refused because somebody else was faster.
func (s subject) conflicts(record store.Record, version string) {
	s.t.Helper()
	entry, err := s.Put(s.t.Context(), record, version)
	require.ErrorIs(s.t, err, store.ErrConflict)
	assert.Zero(s.t, entry)
}

// remains asserts that a removal is refused because somebody else was faster.
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
	_, err := s.GetLive(s.t.Context(), s.node)
	require.ErrorIs(s.t, err, store.ErrNotFound)
	require.Never(s.t, func() bool { return !missing() }, 100*time.Millisecond, 5*time.Millisecond, "nothing brings it back")
}

// holds asserts that every way of reading shows the entry, now; from memory without its history.
func (s subject) holds(want store.Entry) {
	s.t.Helper()
	got, err := s.Get(s.node)
	require.NoError(s.t, err)
	s.holdsLive(want)
	want.Record = want.Record.WithoutHistory()
	assert.Equal(s.t, want.Record.HistoryLeftOut(), got.Record.HistoryLeftOut())
	s.same(want, got)
}

func (s subject) holdsLive(want store.Entry) {
	s.t.Helper()
	got, err := s.GetLive(s.t.Context(), s.node)
	require.NoError(s.t, err)
	s.same(want, got)
}

func (s subject) same(want, got store.Entry) {
	s.t.Helper()
	assert.Equal(s.t, want.Version, got.Version)
	assert.Equal(s.t, s.encoded(want.Record), s.encoded(got.Record))
	assert.False(s.t, got.Unlisted)
}

// lacks asserts that there is no record: live at once, from memory as soon as it knows.
func (s subject) lacks() {
	s.t.Helper()
	got, err := s.GetLive(s.t.Context(), s.node)
	require.ErrorIs(s.t, err, store.ErrNotFound)
	assert.Zero(s.t, got)
	s.becomes(store.ErrNotFound)
	got, _ = s.Get(s.node)
	assert.Zero(s.t, got)
}

// unusable asserts that there is a record that nothing may be taken from: live at once, from memory as soon as it knows.
func (s subject) unusable() {
	s.t.Helper()
	s.becomes(store.ErrUnreadable)
	fromMemory, _ := s.Get(s.node)
	live, err := s.GetLive(s.t.Context(), s.node)
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

// encoded is the record as it is stored; of one whose history was left out, the rest.
func (s subject) encoded(record store.Record) string {
	s.t.Helper()
	if record.Version == 0 {
		record.Version = store.Version
	}
	data, err := json.MarshalIndent(record, "", "  ")
	require.NoError(s.t, err)
	return string(data)
}

// field is one field of the record as it is stored, also one that this version does not know.
func (s subject) field(record store.Record, name string) string {
	s.t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(s.t, json.Unmarshal([]byte(s.encoded(record)), &fields))
	return string(fields[name])
}
