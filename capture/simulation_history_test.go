package capture_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// unset is the value of a key that is not there. No label can have it.
const unset = "(unset)"

// simEdit is a change of an item of a Node that somebody made.
type simEdit struct {
	object  types.UID
	version int
	item    string
	value   string // unset: removed
	manager string
}

// noteWriters notes who wrote a new state of a Node, as managedFields do: a manager is named by what it sets, not by what it
// takes off.
func (w *cluster) noteWriters(before, n *node, version int) {
	if before == nil {
		before = &node{}
	}
	wrote := func(manager string) {
		if n.wrote == nil {
			n.wrote = map[string]int{}
		}
		n.wrote[manager] = version
	}
	was, is := before.items(), n.items()
	for item, value := range is {
		old, had := was[item]
		owners := n.owners[item]
		if record.IsTaint(item) {
			owners = []string{n.taintsBy}
		}
		for _, manager := range owners {
			if !had || old != value || !record.IsTaint(item) && !slices.Contains(before.owners[item], manager) {
				wrote(manager)
				w.edits = append(w.edits, simEdit{n.uid, version, item, value, manager})
			}
		}
	}
	for item := range was {
		if _, still := is[item]; !still && record.IsTaint(item) && len(n.taints) > 0 {
			wrote(n.taintsBy)
			w.edits = append(w.edits, simEdit{n.uid, version, item, unset, n.taintsBy})
		}
	}
}

// checkHistory checks what a write adds to the history of a record: all that it changes of what is remembered, once, and
// nothing else.
func (w *cluster) checkHistory(before recorded, found bool, next recorded) {
	if !found {
		if last := w.history[next.Node]; len(next.History) > 0 && (len(last) < 2 || !maps.Equal(next.Items(), last[len(last)-2].Record.Items())) {
			w.fail("history of %s: the first record notes of changes", next.Node)
		}
		return
	}
	last, told, tells := 0, history.Of(before), history.Of(next)
	if len(told) > 0 {
		last = told[len(told)-1].Number
	}
	noted, older := map[string]history.Values{}, 0
	for _, change := range tells {
		if change.Number <= last {
			older++
			continue
		}
		for item, values := range change.Items {
			if _, twice := noted[item]; twice {
				w.fail("history of %s: %s is noted twice by one write", next.Node, item)
			}
			noted[item] = values
			w.checkActor(next, change, item, values)
		}
	}
	if kept := min(len(told), history.Max-(len(tells)-older)); older != kept {
		w.fail("history of %s: of %d older entries %d are left", next.Node, len(told), older)
	}
	was, is := before.Items(), next.Items()
	for item := range union(was, is, noted) {
		values, notes := noted[item]
		if differs := !same(at(was, item), at(is, item)); differs != notes || notes && (!same(values.From, at(was, item)) || !same(values.To, at(is, item))) {
			w.fail("history of %s: %s was %s and is %s, and the history says %s to %s: %t", next.Node, item,
				orUnset(at(was, item)), orUnset(at(is, item)), orUnset(values.From), orUnset(values.To), notes)
		}
	}
}

// checkActor checks that who is named made that very change; of a taint, that he wrote the list of taints.
func (w *cluster) checkActor(of recorded, change history.Change, item string, values history.Values) {
	if change.Actor == "" {
		return
	}
	made := slices.ContainsFunc(w.edits, func(e simEdit) bool {
		return e.manager == change.Actor && !timeOf(e.version).After(change.Time.Time) &&
			(record.IsTaint(item) && record.IsTaint(e.item) || e.item == item && e.value == orUnset(values.To))
	})
	if !made {
		w.fail("history of %s: %s of %s to %s was not made by %s", of.Node, item, orUnset(values.From), orUnset(values.To), change.Actor)
	}
}

// mostRollBacks bounds to how many earlier states a record is rolled back at each rest.
const mostRollBacks = 4

// checkReplay goes back through the history of a record: each entry must lead to the state in which the one after it found
// what it changed, and to what the record said at that time.
func (w *cluster) checkReplay(name string) {
	now, found := w.recordOf(name)
	log := w.logs[name]
	if !found || len(w.history[name]) == log.replayed {
		return
	}
	log.replayed = len(w.history[name])
	told := history.Of(now)
	if len(told) > history.Max {
		w.fail("history of %s: it has %d entries", name, len(told))
	}
	state := now.Items()
	for i, change := range slices.Backward(told) {
		if i > 0 && told[i-1].Number != change.Number-1 {
			w.fail("history of %s: after entry %d comes %d", name, told[i-1].Number, change.Number)
		}
		for item, values := range change.Items {
			if !same(values.To, at(state, item)) {
				w.fail("history of %s: entry %d leaves %s as %s, and it was %s then", name, change.Number, item, orUnset(values.To), orUnset(at(state, item)))
			}
			put(state, item, values.From)
		}
	}
	var checked json.RawMessage
	states := 0 // to roll back to; older ones were checked before
	for _, earlier := range slices.Backward(w.history[name]) {
		if earlier.Version != "" && checked != nil && bytes.Equal(earlier.Record.History, checked) {
			continue
		}
		if earlier.Version == "" || states == mostRollBacks || !w.checkRollBack(now, earlier.Record) { // it was removed, or is too long ago
			return
		}
		checked, states = earlier.Record.History, states+1
	}
}

// checkRollBack checks that a record rolls back to what it said earlier, as far as its history reaches.
func (w *cluster) checkRollBack(now, earlier recorded) (reaches bool) {
	to, told := 0, history.Of(now)
	if then := history.Of(earlier); len(then) > 0 {
		to = then[len(then)-1].Number
	}
	changed, err := history.RollBack(now, to)
	if reaches = len(told) > 0 && told[0].Number <= to+1; reaches != (err == nil) {
		w.fail("history of %s: it reaches back to entry %d: %t: %v", now.Node, to, reaches, err)
	}
	if !reaches {
		return false
	}
	state := now.Items()
	for item, value := range changed {
		put(state, item, value)
	}
	if !maps.Equal(state, earlier.Items()) {
		w.fail("history of %s: rolled back to entry %d it is %v; it was %v", now.Node, to, state, earlier.Items())
	}
	return true
}

func at(items map[string]string, item string) *string {
	value, is := items[item]
	if !is {
		return nil
	}
	return &value
}

func put(items map[string]string, item string, value *string) {
	if value == nil {
		delete(items, item)
	} else {
		items[item] = *value
	}
}

func same(a, b *string) bool { return orUnset(a) == orUnset(b) }

func orUnset(value *string) string {
	if value == nil {
		return unset
	}
	return *value
}

func union(was, is map[string]string, noted map[string]history.Values) map[string]bool {
	all := map[string]bool{}
	for item := range was {
		all[item] = true
	}
	for item := range is {
		all[item] = true
	}
	for item := range noted {
		all[item] = true
	}
	return all
}
