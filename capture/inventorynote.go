package capture

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

// AcceptedKey is the key of that ConfigMap by which an operator accepts a held snapshot of a source. The command is nodekeep policy accept
// HASH.
func AcceptedKey(source string) string { return source + ".accepted" }

// noteInterval is how often capture compares the note of a source with what it knows, even without a known change. It bounds how much older
// the facts look in the note than they are.
const noteInterval = time.Minute

// InventoryNote is what capture shows of a source. It is written when it changes, and at most once a minute while the source answers.
type InventoryNote struct {
	InForce   string           `json:"inForce,omitempty"`  // hash of the snapshot
	Since     time.Time        `json:"since,omitzero"`     // when it came into force
	Confirmed time.Time        `json:"confirmed,omitzero"` // when the source last said what is in force: the age of its facts
	Nodes     int              `json:"nodes"`              // that it lists
	Held      string           `json:"held,omitempty"`     // hash of the snapshot that waits for an operator
	Change    inventory.Change `json:"change,omitzero"`    // that the held snapshot would make
	Failure   string           `json:"failure,omitempty"`  // why the source cannot be read now

	Problems []inventory.Problem `json:"problems,omitempty"` // what is in force has wrong: the first of many
	Wrong    int                 `json:"wrong,omitempty"`    // how many problems there are, most of one Node each

	Missing []string `json:"missing,omitempty"` // attributes that it has of no Node

	accepted string // hash of the snapshot that an operator has accepted
}

// InventoryNoteOf is the note of a source; ok is false where there is none, or it cannot be read.
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

// notedInventory reads the note of a source.
func (c *Controller) notedInventory(ctx context.Context, source string) (note InventoryNote, exists bool, err error) {
	from, err := c.configMaps.Get(ctx, InventoryName)
	note, _ = InventoryNoteOf(from, source)
	return note, from != nil, err
}

// noteInventory shows which snapshot of a source is in force, and since when. It also shows which one is held, and why the source cannot be
// read. The parameter next is a snapshot that comes into force, or that the source has confirmed. If next is nil, what is in force stays.
func (c *Controller) noteInventory(ctx context.Context, state *inventoryState, next *inventory.Snapshot) error {
	now := stored(c.Now())
	note := InventoryNote{Failure: string(state.failure), Confirmed: stored(state.confirmed)}
	inForce := next
	switch {
	case next != nil:
		note.Confirmed = stored(state.answered)
	case state.read:
		inForce = &state.inForce
	}
	if inForce != nil {
		note.InForce, note.Nodes, note.Missing = inForce.Hash(), inForce.Len(), inForce.Missing()
		note.Problems, note.Wrong = inForce.Problems(c.liveMachines())
	}
	if next == nil && state.held != nil {
		note.Held, note.Change = state.held.Hash(), state.change
	}
	if state.noted != nil && now.Sub(state.notedAt) < noteInterval && note.says(*state.noted) {
		return nil
	}
	before, exists, err := c.notedInventory(ctx, state.source.Name)
	if err != nil {
		return err
	}
	if note.InForce == "" { // what a process before this one has read
		note.InForce, note.Nodes, note.Missing, note.Confirmed = before.InForce, before.Nodes, before.Missing, before.Confirmed
		note.Problems, note.Wrong = before.Problems, before.Wrong
	}
	if note.Since = before.Since; note.InForce != before.InForce {
		note.Since = now
	}
	same := before
	if same.accepted = ""; !reflect.DeepEqual(same, note) {
		if err := c.writeInventoryNote(ctx, exists, state.source.Name, note, before.accepted != "" && note.Held == ""); err != nil {
			return err
		}
	}
	c.inventories.change(func() { state.noted, state.notedAt = &note, now })
	return nil
}

// says reports whether a note says the same as the last one, but for times. A note without a snapshot says nothing about what is in force.
func (n InventoryNote) says(last InventoryNote) bool {
	inForce := n.InForce == "" || n.InForce == last.InForce && n.Nodes == last.Nodes && n.Wrong == last.Wrong && slices.Equal(n.Missing, last.Missing) && slices.Equal(n.Problems, last.Problems)
	return inForce && n.Held == last.Held && n.Change == last.Change && n.Failure == last.Failure
}

// writeInventoryNote writes a note. An acceptance counts once. If another source was faster to create the ConfigMap, the next read writes
// again.
func (c *Controller) writeInventoryNote(ctx context.Context, exists bool, source string, note InventoryNote, forget bool) error {
	encoded, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode inventory note: %w", err)
	}
	text := string(encoded)
	data := map[string]*string{source: &text}
	if forget {
		data[AcceptedKey(source)] = nil
	}
	return c.configMaps.Set(ctx, InventoryName, exists, data)
}
