package capture_test

import (
	"slices"
)

// check holds what there is, when nothing is left to do, against what clients want.
func (w *cluster) check() {
	for _, name := range w.scenario.names {
		r, found := w.recordOf(name)
		n := w.nodes[name]
		lives := n != nil && !n.deleting
		for _, k := range w.scenario.keys {
			w.checkKey(name, k, r, n)
		}
		switch {
		case n == nil && found && !saysDeleted(r):
			w.fail("record does not say that %s is deleted", name)
		case lives && gate.On(n.taints):
			w.fail("gate is still on %s", name)
		case lives && found && newestObject(r) != n.uid:
			w.fail("record is not of the living object of %s", name)
		case lives && saysDeleted(r):
			w.fail("record says that %s is deleted, which lives", name)
		}
		if lives {
			w.checkRule(n)
		}
		for _, c := range slices.Clone(w.captures) {
			c.checkPending(name)
		}
		w.checkReplay(name)
	}
	for _, c := range w.captures {
		if wrong := c.WrongCounts(); wrong != "" {
			w.fail("metrics of process %d: %s", c.id, wrong)
		}
	}
}

// checkKey checks what is remembered of a key, and that the Node shows it.
func (w *cluster) checkKey(name string, k int, r recorded, n *node) {
	log := w.logs[name]
	got := remembered(r)[keys[k]]
	why, wrong := log.judge(k, got, !w.scenario.guards && (isTaintKey(k) || isProtected(k)))
	if wrong != "" {
		w.fail("%s %s of %s is remembered as %q; a client wanted %q", wrong, keys[k], name, got, log.question(k, nil, false).last())
	}
	w.excused(name, why)
	selects := w.policies[len(w.policies)-1].selects[k]
	if n == nil {
		log.settle(k, got)
		return
	}
	shown := n.past.items[k]
	switch {
	case shown.value == got, n.deleting:
	case shown.value == none && w.scenario.never(k) && selects:
		return
	case shown.owner == ownedByKubelet && shown.value != none, shown.claimed && got == none:
		w.shows[hidden]++
		return
	case !selects:
		w.shows[unselected]++
		return
	case isTaintKey(k) && shown.value != none && shown.brought == shown.value: // the kubelet's own
		w.shows[hidden]++
		return
	case !w.scenario.guards && (isTaintKey(k) || isProtected(k)) && shown.value != none && shown.value == shown.given, shown.forged:
		w.shows[unguarded]++
		return
	default:
		w.fail("Node %s shows %s as %q; %q is remembered", name, keys[k], shown.value, got)
	}
	if selects && shown.owner != ownedByKubelet && !shown.claimed {
		log.settle(k, got)
	}
}

func (log *nodeLog) question(k int, set map[int]bool, less bool) question {
	return question{
		order: func(at int) int { return log.order(at, k) },
		log:   log.states, seen: log.observedBy(k, set, less), k: k, taint: isTaintKey(k), from: log.settledAt[k], settled: log.settled[k],
	}
}

// judge says which limit excuses what is remembered, or how it is wrong.
func (log *nodeLog) judge(k int, got string, careful bool) (why excuse, wrong string) {
	q := log.question(k, nil, false)
	if got == q.last() || log.forgets && (got == none || got == log.states[len(log.states)-1].items[k].value) { // as if the Node were new
		return promised, ""
	}
	for _, undone := range []bool{false, true} {
		uncertain := log.uncertain(k, undone)
		for set := range subsets(uncertain) {
			q := log.question(k, set, undone)
			q.careful = careful
			if a := q.wanted(); a.allows(got) {
				if undone {
					return slowWriter, ""
				}
				if a.why == promised {
					a.why = unobserved // by a process that stopped in the middle
				}
				return a.why, ""
			}
		}
	}
	if log.tooFar {
		return tooFarBehind, ""
	}
	for at := len(log.states) - 1; at >= 0; at-- {
		if log.states[at].items[k].forged && !isTaintKey(k) && !isProtected(k) {
			return unguarded, ""
		}
	}
	if got == none {
		return promised, "lost:"
	}
	if q.last() == none {
		return promised, "risen:"
	}
	return promised, "stale:"
}

// subsets are the sets of states that may have been observed: all of them, where there are few groups.
func subsets(groups [][]int) func(yield func(map[int]bool) bool) {
	return func(yield func(map[int]bool) bool) {
		if most := 14; len(groups) > most {
			groups = groups[len(groups)-most:]
		}
		for bits := range 1 << len(groups) {
			set := map[int]bool{}
			for i, states := range groups {
				for _, at := range states {
					if bits&(1<<i) != 0 {
						set[at] = true
					}
				}
			}
			if !yield(set) {
				return
			}
		}
	}
}

// settle closes what was decided so far: from now on, only what happens next may change what is remembered.
func (log *nodeLog) settle(k int, value string) {
	log.settledAt[k], log.settled[k] = len(log.states), value
}

// checkRule checks that the rule's taint follows its label.
func (w *cluster) checkRule(n *node) {
	want := none
	for _, taint := range rulesTaints(w.policies[len(w.policies)-1].policyFile, n.labels) {
		want = taint.Value
	}
	shown, is := n.items()[ruleTaint]
	if shown == want && (is || want == none) {
		return
	}
	if w.logs[n.name].forgedRules {
		w.shows[unguarded]++
		return
	}
	w.fail("rule: %s shows %s as %q; its labels want %q", n.name, ruleTaint, shown, want)
}

// checkPending checks that a process has nothing left to do, and knows what lives.
func (c *process) checkPending(name string) {
	var live *pendingState
	for _, state := range c.Pending(name) {
		if !state.Gone {
			live = &state
			continue
		}
		if !c.Leads() { // it knows what no leader ever observed and would write it when it leads: not this time
			c.die()
			return
		}
		c.fail("queue of process %d still holds deleted objects of %s", c.id, name)
	}
	if n := c.nodes[name]; (live == nil) != (n == nil) || n != nil && live.UID != n.uid {
		c.fail("queue of process %d does not know which %s lives", c.id, name)
	}
}
