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
// is a [SourceStatus].
const InventoryName = "nodekeep-inventory"

// AcceptedKey returns the key of that ConfigMap by which an operator accepts a held snapshot of a source. The command is nodekeep accept rules
// HASH.
func AcceptedKey(source string) string { return source + ".accepted" }

// statusInterval is how often capture compares the status of a source with what it knows, even without a known change. It bounds how much older
// the facts look in the status than they are.
const statusInterval = time.Minute

// truncateToSecond returns a time as records and the status of sources have it: whole seconds, UTC.
func truncateToSecond(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }

// SourceStatus is what capture shows of a source. It is written when it changes, and at most once a minute while the source answers.
type SourceStatus struct {
	InForce   string           `json:"inForce,omitempty"`  // hash of the snapshot
	Applied   time.Time        `json:"since,omitzero"`     // when it came into force
	Confirmed time.Time        `json:"confirmed,omitzero"` // when the source last said what is in force: the age of its facts
	Nodes     int              `json:"nodes"`              // that it lists
	Held      string           `json:"held,omitempty"`     // hash of the snapshot that waits for an operator
	Change    inventory.Change `json:"change,omitzero"`    // that the held snapshot would make
	Failure   string           `json:"failure,omitempty"`  // why the source cannot be read now

	Problems     []inventory.Problem `json:"problems,omitempty"` // of the snapshot in force, the first of them
	ProblemCount int                 `json:"wrong,omitempty"`    // how many problems there are, most of one Node each

	Missing []string `json:"missing,omitempty"` // attributes that it has of no Node

	accepted string // hash of the snapshot that an operator has accepted
}

// SourceStatusOf returns the status of a source; ok is false where there is none, or it cannot be read.
func SourceStatusOf(configMap *corev1.ConfigMap, source string) (status SourceStatus, ok bool) {
	if configMap == nil {
		return SourceStatus{}, false
	}
	ok = json.Unmarshal([]byte(configMap.Data[source]), &status) == nil
	if !ok {
		status = SourceStatus{}
	}
	status.accepted = configMap.Data[AcceptedKey(source)]
	return status, ok
}

// Accepted reports whether an operator has accepted the snapshot that is held.
func (s SourceStatus) Accepted() bool { return s.Held != "" && s.accepted == s.Held }

// readStatus reads the status of a source.
func (s *Sources) readStatus(ctx context.Context, source string) (status SourceStatus, exists bool, err error) {
	configMap, err := s.Notes.Get(ctx, InventoryName)
	status, _ = SourceStatusOf(configMap, source)
	return status, configMap != nil, err
}

// updateStatus shows which snapshot of a source is in force, and since when. It also shows which one is held, and why the source cannot be
// read. The parameter next is a snapshot that comes into force, or that the source has confirmed. If next is nil, what is in force stays.
func (s *Sources) updateStatus(ctx context.Context, st *state, next *inventory.Snapshot) error {
	now := truncateToSecond(s.Now())
	status := SourceStatus{Failure: string(st.failure), Confirmed: truncateToSecond(st.confirmed)}
	inForce := next
	switch {
	case next != nil:
		status.Confirmed = truncateToSecond(st.answered)
	case st.hasSnapshot:
		inForce = &st.inForce
	}
	if inForce != nil {
		status.InForce, status.Nodes, status.Missing = inForce.Hash(), inForce.Len(), inForce.Missing()
		status.Problems, status.ProblemCount = inForce.Problems(s.Controller.SystemUUIDs())
	}
	if next == nil && st.held != nil {
		status.Held, status.Change = st.held.Hash(), st.change
	}
	if st.lastStatus != nil && now.Sub(st.statusAt) < statusInterval && status.sameAs(*st.lastStatus) {
		return nil
	}
	prev, exists, err := s.readStatus(ctx, st.source.Name)
	if err != nil {
		return err
	}
	if status.InForce == "" { // what a process before this one has read
		status.InForce, status.Nodes, status.Missing, status.Confirmed = prev.InForce, prev.Nodes, prev.Missing, prev.Confirmed
		status.Problems, status.ProblemCount = prev.Problems, prev.ProblemCount
	}
	if status.Applied = prev.Applied; status.InForce != prev.InForce {
		status.Applied = now
	}
	copied := prev
	if copied.accepted = ""; !reflect.DeepEqual(copied, status) {
		if err := s.writeStatus(ctx, exists, st.source.Name, status, prev.accepted != "" && status.Held == ""); err != nil {
			return err
		}
	}
	s.locked(func() { st.lastStatus, st.statusAt = &status, now })
	return nil
}

// sameAs reports whether a status says the same as the last one, but for times. A status without a snapshot says nothing about what is in force.
func (s SourceStatus) sameAs(last SourceStatus) bool {
	inForce := s.InForce == "" || s.InForce == last.InForce && s.Nodes == last.Nodes && s.ProblemCount == last.ProblemCount && slices.Equal(s.Missing, last.Missing) && slices.Equal(s.Problems, last.Problems)
	return inForce && s.Held == last.Held && s.Change == last.Change && s.Failure == last.Failure
}

// writeStatus writes the status of a source. An acceptance counts once. If another source was faster to create the ConfigMap, the next read writes
// again.
func (s *Sources) writeStatus(ctx context.Context, exists bool, source string, status SourceStatus, dropAcceptance bool) error {
	encoded, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode inventory status: %w", err)
	}
	text := string(encoded)
	data := map[string]*string{source: &text}
	if dropAcceptance {
		data[AcceptedKey(source)] = nil
	}
	return s.Notes.Set(ctx, InventoryName, exists, data)
}
