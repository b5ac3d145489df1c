package capture_test

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// unset is the value of a key that is not there. No label can have it.
const unset = "(unset)"

// simEdit is a change of an item of a Node that a client made.
type simEdit struct {
	object  types.UID
	version int
	item    string
	value   string // unset: removed
	manager string
}

// noteWriters notes who wrote a new state of a Node, as managedFields do: a manager is named by what it sets, not by what it
// removes.
func (w *cluster) noteWriters(prev, n *node, version int) {
	if prev == nil {
		prev = &node{}
	}
	wrote := func(manager string) {
		if n.wrote == nil {
			n.wrote = map[string]int{}
		}
		n.wrote[manager] = version
	}
	former, current := prev.items(), n.items()
	for item, value := range current {
		old, ok := former[item]
		owners := n.owners[item]
		if record.IsTaint(item) {
			owners = []string{n.taintsBy}
		}
		for _, manager := range owners {
			if !ok || old != value || !record.IsTaint(item) && !slices.Contains(prev.owners[item], manager) {
				wrote(manager)
				w.edits = append(w.edits, simEdit{n.uid, version, item, value, manager})
			}
		}
	}
	for item := range former {
		if _, ok := current[item]; !ok && record.IsTaint(item) && len(n.taints) > 0 {
			wrote(n.taintsBy)
			w.edits = append(w.edits, simEdit{n.uid, version, item, unset, n.taintsBy})
		}
	}
}

// checkHistory checks what a write adds to the history of a record: all that it changes, once, and nothing else.
// From there the history leads back to the record before the write, and before the oldest entry.
func (w *cluster) checkHistory(prev recorded, found bool, next recorded) {
	log, known := w.logs[next.Node], history.Changes(next)
	if found {
		last := lastNumber(log.history)
		added := len(known) // where the entries of this write begin
		for added > 0 && known[added-1].Number > last {
			added--
		}
		if kept := min(len(log.history), history.Max-(len(known)-added)); !sameHistory(known[:added], log.history[len(log.history)-kept:]) {
			w.fail("history of %s: of %d older entries not the newest %d are left", next.Node, len(log.history), kept)
		}
		if changed := !maps.Equal(prev.Items(), next.Items()); changed != (added < len(known)) {
			w.fail("history of %s: of a change (%t) there are %d entries", next.Node, changed, len(known)-added)
		}
		for _, change := range known[added:] {
			for item, values := range change.Items {
				if value := next.Items()[item]; ptr.Deref(values.To, "") != value {
					w.fail("history of %s: %s is %q, and the history says %q", next.Node, item, value, ptr.Deref(values.To, unset))
				}
				w.checkActor(next, change, item, values)
			}
		}
		if added < len(known) {
			w.checkRollBack(next, last)
		}
	} else if !sameHistory(known, log.history) { // the removed one was not put back
		if clear(log.remembered); len(known) > 0 {
			w.fail("history of %s: the first record notes of changes", next.Node)
		}
	}
	if len(known) > 0 && known[0].Number-1 != lastNumber(log.history) {
		w.checkRollBack(next, known[0].Number-1)
	}
	log.history, log.remembered[lastNumber(known)] = known, next.Items()
}

// unwrite forgets what was written after a record that is put back.
func (w *cluster) unwrite(log *nodeLog, older recorded) {
	log.history = history.Changes(older)
	clear(log.remembered) // another record may have begun to count anew in between
	log.remembered[lastNumber(log.history)] = older.Items()
}

func sameHistory(a, b []history.Change) bool {
	return slices.EqualFunc(a, b, func(a, b history.Change) bool { return reflect.DeepEqual(a, b) })
}

func lastNumber(known []history.Change) int {
	if len(known) == 0 {
		return 0
	}
	return known[len(known)-1].Number
}

// checkActor checks that who is named made that very change; of a taint, that he wrote the list of taints.
func (w *cluster) checkActor(object recorded, change history.Change, item string, values history.Values) {
	if change.Actor == "" {
		return
	}
	made := slices.ContainsFunc(w.edits, func(e simEdit) bool {
		return e.manager == change.Actor && !timeOf(e.version).After(change.Time.Time) &&
			(record.IsTaint(item) && record.IsTaint(e.item) || e.item == item && e.value == ptr.Deref(values.To, unset))
	})
	if !made {
		w.fail("history of %s: %s of %s to %s was not made by %s", object.Node, item, ptr.Deref(values.From, unset), ptr.Deref(values.To, unset), change.Actor)
	}
}

// checkRollBack checks that a record rolls back to what it remembered after an entry of its history.
func (w *cluster) checkRollBack(r recorded, to int) {
	planned, known := w.logs[r.Node].remembered[to]
	if !known { // one write may make several entries
		return
	}
	changed, err := history.RollBack(r, to)
	if err != nil {
		w.fail("history of %s: it does not reach back to entry %d: %v", r.Node, to, err)
	}
	state := r.Items()
	for item, value := range changed {
		if delete(state, item); value != nil {
			state[item] = *value
		}
	}
	if !maps.Equal(state, planned) {
		w.fail("history of %s: rolled back to entry %d it is %v; it was %v", r.Node, to, state, planned)
	}
}
