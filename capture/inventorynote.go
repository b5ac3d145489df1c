package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/observe"
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
	from, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, InventoryName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return InventoryNote{}, false, nil
	}
	if err != nil {
		return InventoryNote{}, false, fmt.Errorf("get configmap %q: %w", InventoryName, err)
	}
	note, _ = InventoryNoteOf(from, source)
	return note, true, nil
}

// noteInventory shows which snapshot of a source is in force, and since when. It also shows which one is held, and why the source cannot be
// read. The parameter next is a snapshot that comes into force, or that the source has confirmed. If next is nil, what is in force stays.
func (c *Controller) noteInventory(ctx context.Context, state *inventoryState, next *inventory.Snapshot) error {
	now := stored(c.Now())
	c.inventories.mu.Lock()
	note := InventoryNote{Failure: string(state.failure), Confirmed: stored(state.confirmed)}
	switch {
	case next != nil:
		note.InForce, note.Nodes, note.Confirmed = next.Hash(), next.Len(), stored(state.answered)
	case state.read:
		note.InForce, note.Nodes = state.inForce.Hash(), state.inForce.Len()
	}
	if next == nil && state.held != nil {
		note.Held, note.Change = state.held.Hash(), state.change
	}
	last, at := state.noted, state.notedAt
	c.inventories.mu.Unlock()
	if last != nil && now.Sub(at) < noteInterval && note.says(*last) {
		return nil
	}
	before, exists, err := c.notedInventory(ctx, state.source.Name)
	if err != nil {
		return err
	}
	if note.InForce == "" { // what a process before this one has read
		note.InForce, note.Nodes, note.Confirmed = before.InForce, before.Nodes, before.Confirmed
	}
	if note.Since = before.Since; note.InForce != before.InForce {
		note.Since = now
	}
	same := before
	if same.accepted = ""; same != note {
		if err := c.writeInventoryNote(ctx, exists, state.source.Name, note, before.accepted != "" && note.Held == ""); err != nil {
			return err
		}
	}
	c.inventories.mu.Lock()
	state.noted, state.notedAt = &note, now
	c.inventories.mu.Unlock()
	return nil
}

// says reports whether a note says the same as the last one, but for times. A note without a snapshot says nothing about what is in force.
func (n InventoryNote) says(last InventoryNote) bool {
	inForce := n.InForce == "" || n.InForce == last.InForce && n.Nodes == last.Nodes
	return inForce && n.Held == last.Held && n.Change == last.Change && n.Failure == last.Failure
}

// writeInventoryNote writes a note. An acceptance counts once.
func (c *Controller) writeInventoryNote(ctx context.Context, exists bool, source string, note InventoryNote, forget bool) error {
	text, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode inventory note: %w", err)
	}
	configMaps := c.Client.CoreV1().ConfigMaps(c.Namespace)
	if exists {
		data := map[string]any{source: string(text)}
		if forget {
			data[AcceptedKey(source)] = nil
		}
		body, encodeErr := json.Marshal(map[string]any{"data": data})
		if encodeErr != nil {
			return fmt.Errorf("encode inventory note: %w", encodeErr)
		}
		_, err = configMaps.Patch(ctx, InventoryName, types.MergePatchType, body, metav1.PatchOptions{FieldManager: observe.FieldManager})
	} else {
		created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: InventoryName, Namespace: c.Namespace}, Data: map[string]string{source: string(text)}}
		_, err = configMaps.Create(ctx, created, metav1.CreateOptions{FieldManager: observe.FieldManager})
	}
	if err != nil { // also where another source was faster to create it: the next read writes again
		return fmt.Errorf("write configmap %q: %w", InventoryName, err)
	}
	return nil
}
