package labels

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

const (
	oldKey, newKey = "old", "example.com/new"
	maxCaptures    = 2
	maxStates      = 50 // more than a scenario has if captures come to rest
)

// Bounds say what may happen in a scenario, and how often.
type Bounds struct {
	Objects, Captures, Edits, Faults int
	// Rule is what a rule for newKey does; empty: there is none, and a migration renames oldKey to newKey.
	Rule oracle.Rule `json:",omitempty"`
}

// state is one state of a Node object. Its version is its index in the log and one.
type state struct {
	oracle.Renaming
	deleted            bool
	annotations, owned map[string]string // owned: the keys of labels that a client manages
	node               *observe.Node
	sum                sum
}

type sum [16]byte

func sumOf(format string, args ...any) sum {
	all := sha256.Sum256(fmt.Appendf(nil, format, args...))
	return sum(all[:16])
}

type stored struct {
	record.Record
	sum sum
}

// world is one state of everything.
type world struct {
	log      []*state
	records  []*stored // all that were written; the first is none
	captures [maxCaptures]process
	seen     uint64 // the states that a capture has worked on
	older    uint64 // and those of them before any followed the next policy
	left     Bounds
	wrong    string
	logSum   sum
	readSum  sum
}

// process is one capture: how much of the watch it has taken. A blind one has listed the Nodes, and there was none.
type process struct {
	taken        int
	blind, ended bool
}

func (m *model) start() world { return world{records: []*stored{{}}, left: m.Bounds} }

func (w *world) tip() *state     { return w.log[len(w.log)-1] }
func (w *world) live() bool      { return len(w.log) > 0 && !w.tip().deleted }
func (w *world) newest() *stored { return w.records[len(w.records)-1] }

func (w *world) push(s state) {
	s.node = nil
	s.Listed = strings.Contains(s.annotations[policy.LabelsAnnotation], strconv.Quote(newKey))
	s.sum = sumOf("%d %q %q %d %t %v %v", s.Object, s.Old, s.New, s.Edited, s.deleted, s.annotations, s.owned)
	w.log = append(slices.Clip(w.log), &s)
	w.logSum = sumOf("%x%x", w.logSum, s.sum)
}

func (w *world) write(r record.Record) error {
	data, err := record.Encode(r)
	if err != nil {
		return err
	}
	s := &stored{r, sumOf("%s", data)}
	w.records = append(slices.Clip(w.records), s)
	w.readSum = sumOf("%x%x", w.readSum, s.sum)
	return nil
}

func (w *world) hash() sum {
	return sumOf("%x%x%v%x%x%v", w.logSum, w.readSum, w.captures, w.seen, w.older, w.left)
}

// history returns the log as the oracle reads it.
func (w *world) history() []oracle.Renaming {
	all := make([]oracle.Renaming, len(w.log))
	for i, s := range w.log {
		all[i] = s.Renaming
		all[i].Exactly = w.seen>>i&1 == 1
		for later := i; later < len(w.log) && w.log[later].Object == s.Object; later++ {
			all[i].Seen = all[i].Seen || w.seen>>later&1 == 1
			all[i].Early = all[i].Early || w.older>>later&1 == 1
		}
	}
	return all
}

// ended reports whether all captures follow the next policy; same is false where they do not follow the same one.
func (m *model) ended(w *world) (ended, equal bool) {
	ended = w.captures[0].ended
	for _, c := range w.captures[:m.Captures] {
		if c.ended != ended {
			return false, false
		}
	}
	return ended, true
}
