package capture_test

import "nodekeep.dev/nodekeep/test/simulation/oracle"

// observation is what is known about who observed a state. A process that stopped in the middle may or may not have.
type observation struct {
	surely, possibly        bool
	selected, maybeSelected [keyCount]bool // by a process whose policy selected the key

	// In which order the states were observed, each for the first time that counts.
	first         int
	firstSelected [keyCount]int

	written   int            // in the same order, when a process last wrote the record from the state
	unwritten bool           // no write of the record followed
	undone    [keyCount]bool // and since then a slower process has written an older state
}

// observe notes that a process observed a state of a Node; sure, that this counts whatever happens next. wrote says that a write of the
// record followed or that nothing can follow the state; began, when the process started to work on it.
func (w *cluster) observe(n *node, by *policyInUse, sure, wrote bool, began int) {
	log := w.logs[n.name]
	if object := n.former.object; log.newest-object >= maxObjects {
		log.tooFar = true
		return
	} else if sure {
		log.newest = max(log.newest, object)
	}
	o := &log.observed[n.pos]
	log.sequence++
	if !o.possibly || sure && !o.surely {
		o.first = log.sequence
	}
	for k := range keys {
		if by.selects[k] && (!o.maybeSelected[k] || sure && !o.selected[k]) {
			o.firstSelected[k] = log.sequence
		}
		o.selected[k] = o.selected[k] || sure && by.selects[k]
		o.maybeSelected[k] = o.maybeSelected[k] || by.selects[k]
	}
	switch {
	case wrote:
		o.unwritten = false
		for k := range keys { // what the policy does not select and the Node shows is not written
			o.undone[k] = o.undone[k] && !by.selects[k] && n.former.items[k].Value != oracle.NoValue
		}
	case sure && !o.surely:
		o.unwritten = true
		if log.olderWrite(n, began) {
			o.undo()
		}
	}
	o.surely, o.possibly = o.surely || sure, true
}

// order returns when a state was observed by a process whose policy selected the key, or else by any.
func (log *nodeLog) order(i, k int) int {
	if o := log.observed[i]; o.maybeSelected[k] {
		return o.firstSelected[k]
	}
	return log.observed[i].first
}

// olderWrite reports whether a process wrote the record from an older state of the object since then.
func (log *nodeLog) olderWrite(n *node, began int) bool {
	for i := n.pos - 1; i >= 0 && log.states[i].object == n.former.object; i-- {
		if log.observed[i].written > began {
			return true
		}
	}
	return false
}

// maxObjects is how many objects of one name a record knows.
const maxObjects = 8

// wroteFrom notes that a process that had observed a state wrote the record: newer states of the object that led to no write
// are not in it.
func (w *cluster) wroteFrom(n *node) {
	log := w.logs[n.name]
	log.sequence++
	log.observed[n.pos].written = log.sequence
	for i := n.pos + 1; i < len(log.states) && log.states[i].object == n.former.object; i++ {
		if o := &log.observed[i]; o.possibly && (o.unwritten || !o.surely) {
			o.undo()
		}
	}
}

// undo notes that a slower process has written an older state.
func (o *observation) undo() {
	for k := range keys {
		o.undone[k] = true
	}
}

// observedBy returns how each state counts: the states that were surely observed, and of the others those in the set. less leaves out
// what a slower process may have undone.
func (log *nodeLog) observedBy(k int, set map[int]bool, shorter bool) func(i int) oracle.Observation {
	return func(i int) oracle.Observation {
		o := log.observed[i]
		switch {
		case shorter && o.undone[k] && !set[i]:
			return oracle.NotObserved
		case o.surely && o.selected[k], set[i] && o.maybeSelected[k]:
			return oracle.Observed
		case o.surely, set[i]:
			return oracle.WhileUnselected
		default:
			return oracle.NotObserved
		}
	}
}

// uncertain returns the states of which nobody knows whether they count: those that nobody surely observed and, with undone, those that
// a slower process may have undone. Those that show the same count alike.
func (log *nodeLog) uncertain(k int, undone bool) (groups [][]int) {
	from := log.settledAt[k]
	for from > 0 && from < len(log.states) && log.states[from-1].object == log.states[from].object {
		from--
	}
	last := -1
	for i, o := range log.observed {
		uncertain := o.possibly && !o.surely || o.maybeSelected[k] && !o.selected[k] || undone && o.undone[k]
		if i < from || !uncertain {
			continue
		}
		if last >= 0 && log.alike(last, i, k) {
			groups[len(groups)-1] = append(groups[len(groups)-1], i)
		} else {
			groups = append(groups, []int{i})
		}
		last = i
	}
	return groups
}

// alike reports whether all states from one to another are of one object and show the same of a key.
func (log *nodeLog) alike(from, end, k int) bool {
	first := log.states[from].items[k]
	for _, p := range log.states[from+1 : end+1] {
		if p.object != log.states[from].object || p.items[k] != first || p.edited[k] || p.bare {
			return false
		}
	}
	return true
}
