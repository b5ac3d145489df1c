package inventories

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/inventory"
)

// InventoryName is the ConfigMap that shows which snapshot of each source of the inventory is in force. The key is the name of the source; its value
// is an [InventoryNote].
const InventoryName = "nodekeep-inventory"

// AcceptedKey returns the key of that ConfigMap by which an operator accepts a held snapshot of a source. The command is nodekeep accept rules
// HASH.
func AcceptedKey(source string) string { return source + ".accepted" }

// noteInterval is how often capture compares the note of a source with what it knows, even without a known change. It bounds how much older
// the facts look in the note than they are.
const noteInterval = time.Minute

// recordTime returns a time as notes and records have it: whole seconds, UTC.
func recordTime(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }

// InventoryNote is what capture shows of a source. It is written when it changes, and at most once a minute while the source answers.
type InventoryNote struct {
	InForce   string           `json:"inForce,omitempty"`  // hash of the snapshot
	Applied   time.Time        `json:"since,omitzero"`     // when it came into force
	Confirmed time.Time        `json:"confirmed,omitzero"` // when the source last said what is in force: the age of its facts
	Nodes     int              `json:"nodes"`              // that it lists
	Held      string           `json:"held,omitempty"`     // hash of the snapshot that waits for an operator
	Change    inventory.Change `json:"change,omitzero"`    // that the held snapshot would make
	Failure   string           `json:"failure,omitempty"`  // why the source cannot be read now

	Problems []inventory.Problem `json:"problems,omitempty"` // of the snapshot in force, the first of them
	Wrong    int                 `json:"wrong,omitempty"`    // how many problems there are, most of one Node each

	Missing []string `json:"missing,omitempty"` // attributes that it has of no Node

	accepted string // hash of the snapshot that an operator has accepted
}

// InventoryNoteOf returns the note of a source; ok is false where there is none, or it cannot be read.
func InventoryNoteOf(from *corev1.ConfigMap, source string) (note InventoryNote, ok bool) {
	if from == nil {
		return InventoryNote{}, false
	}
	ok = json.Unmarshal([]byte(from.Data[source]), &note) == nil
	if !ok {
		note = InventoryNote{}
	}
	note.accepted = from.Data[AcceptedKey(source)]
	return note, ok
}

// Accepted reports whether an operator has accepted the snapshot that is held.
func (n InventoryNote) Accepted() bool { return n.Held != "" && n.accepted == n.Held }

// readNote reads the note of a source.
func (s *Sources) readNote(ctx context.Context, source string) (note InventoryNote, exists bool, err error) {
	from, err := s.Notes.Get(ctx, InventoryName)
	note, _ = InventoryNoteOf(from, source)
	return note, from != nil, err
}

// updateNote shows which snapshot of a source is in force, and since when. It also shows which one is held, and why the source cannot be
// read. The parameter next is a snapshot that comes into force, or that the source has confirmed. If next is nil, what is in force stays.
func (s *Sources) updateNote(ctx context.Context, st *state, next *inventory.Snapshot) error {
	now := recordTime(s.Now())
	note := InventoryNote{Failure: string(st.failure), Confirmed: recordTime(st.confirmed)}
	inForce := next
	switch {
	case next != nil:
		note.Confirmed = recordTime(st.answered)
	case st.read:
		inForce = &st.inForce
	}
	if inForce != nil {
		note.InForce, note.Nodes, note.Missing = inForce.Hash(), inForce.Len(), inForce.Missing()
		note.Problems, note.Wrong = inForce.Problems(s.Nodes.Machines())
	}
	if next == nil && st.held != nil {
		note.Held, note.Change = st.held.Hash(), st.change
	}
	if st.noted != nil && now.Sub(st.notedAt) < noteInterval && note.sameAs(*st.noted) {
		return nil
	}
	prev, exists, err := s.readNote(ctx, st.source.Name)
	if err != nil {
		return err
	}
	if note.InForce == "" { // what a process before this one has read
		note.InForce, note.Nodes, note.Missing, note.Confirmed = prev.InForce, prev.Nodes, prev.Missing, prev.Confirmed
		note.Problems, note.Wrong = prev.Problems, prev.Wrong
	}
	if note.Applied = prev.Applied; note.InForce != prev.InForce {
		note.Applied = now
	}
	copied := prev
	if copied.accepted = ""; !reflect.DeepEqual(copied, note) {
		if err := s.writeNote(ctx, exists, st.source.Name, note, prev.accepted != "" && note.Held == ""); err != nil {
			return err
		}
	}
	s.update(func() { st.noted, st.notedAt = &note, now })
	return nil
}

// sameAs reports whether a note says the same as the last one, but for times. A note without a snapshot says nothing about what is in force.
func (n InventoryNote) sameAs(last InventoryNote) bool {
	inForce := n.InForce == "" || n.InForce == last.InForce && n.Nodes == last.Nodes && n.Wrong == last.Wrong && slices.Equal(n.Missing, last.Missing) && slices.Equal(n.Problems, last.Problems)
	return inForce && n.Held == last.Held && n.Change == last.Change && n.Failure == last.Failure
}

// writeNote writes a note. An acceptance counts once. If another source was faster to create the ConfigMap, the next read writes
// again.
func (s *Sources) writeNote(ctx context.Context, exists bool, source string, note InventoryNote, forget bool) error {
	encoded, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode inventory note: %w", err)
	}
	text := string(encoded)
	data := map[string]*string{source: &text}
	if forget {
		data[AcceptedKey(source)] = nil
	}
	return s.Notes.Set(ctx, InventoryName, exists, data)
}
