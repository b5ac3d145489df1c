package main

import (
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// bounds say what may happen in a scenario, and how often.
type bounds struct {
	Keys     int
	Taints   [maxKeys]bool
	Values   int8
	Captures int

	Objects, Edits, Faults, Heartbeats, Cancelled int8
	Policies                                      int8              // times that the policy changes which keys it selects: key 0, or not
	Unstamps                                      int8              // times that a client removes the annotation
	Losses                                        int8              // times that the record vanishes, is put back older, or is written manually
	Machines                                      policy.OnMismatch `json:",omitempty"` // three machines share the name, and this happens; empty: there is one
	Kubelet                                       bool              // the kubelet has an own value for key 0
	Admission                                     bool              // another admission policy sets key 0 in a CREATE
	Rule                                          bool              // the policy derives taint key 0 from label key 1
	Owned                                         bool              // the owner of a label is restored with it
	Protected                                     bool              // the webhook may not restore key 0; capture does
	JSON                                          bool              // every record goes through its JSON
}

// model is what all worlds of an exploration share.
type model struct {
	bounds
	names  [maxKeys]string
	policy policy.Policy
}

// world is one state of everything: the Node objects, the records, and what each process knows.
type world struct {
	log      []*state
	records  []*stored // all that were written; the first is none
	captures [2]capture
	merged
	tooFar               bool // a state was merged that came too late to count
	ignores              bool // the policy does not select key 0 now
	broken               bool // a Node was changed as it must never be, see [model.patch]
	left                 left
	logHash, recordsHash hash
}

// left is what may still happen.
type left struct{ objects, edits, faults, heartbeats, cancelled, policies, unstamps, losses int8 }

// stored is a record as it was written, and what processes had merged by then.
type stored struct {
	record.Record
	merged
	hash hash
}

// merged are the states that a process merged, as bits. The states in unselected were merged only while the policy did not select key 0. Those
// in soft led to no write. Those in lost have been undone by a slower process that wrote an older state. Settled is what a record that was
// written manually had of key 0.
type merged struct {
	observed, unselected, soft, lost uint64
	settled                          int8
}

// capture is one capture controller: how much of the watch it has taken from its queue. The last state taken is the one that it
// works on.
type capture struct {
	taken int8
	done  bool // that was a deletion, and it is recorded
}

func (m *model) start() world {
	b := m.bounds
	return world{
		records: []*stored{{}},
		left:    left{b.Objects, b.Edits, b.Faults, b.Heartbeats, b.Cancelled, b.Policies, b.Unstamps, b.Losses},
	}
}

func (w *world) tip() *state { return w.log[len(w.log)-1] }
func (w *world) live() bool  { return len(w.log) > 0 && !w.tip().deleted }
func (w *world) record() record.Record {
	return w.records[len(w.records)-1].Record
}

// push appends a state of the Node.
func (w *world) push(s state) {
	s.read = [2]any{}
	log := make([]*state, len(w.log)+1)
	copy(log, w.log)
	log[len(w.log)] = &s
	w.log = log
	w.logHash = w.logHash.add(s.hash())
}
