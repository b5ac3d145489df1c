package capture_test

import (
	"slices"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
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
		case lives && gate.Present(n.taints):
			w.fail("gate is still on %s", name)
		case lives && found && newestObject(r) != n.uid:
			w.fail("record is not of the living object of %s", name)
		case lives && saysDeleted(r):
			w.fail("record says that %s is deleted, which lives", name)
		}
		if lives {
			w.checkRule(n)
			w.checkOwners(n, r)
		}
		for _, c := range slices.Clone(w.captures) {
			c.checkPending(name)
		}
	}
	for _, c := range w.captures {
		if wrong := c.WrongCounts(); wrong != "" {
			w.fail("metrics of process %d: %s", c.id, wrong)
		}
	}
}

// checkKey checks the recorded state of a key, and that the Node shows it.
func (w *cluster) checkKey(name string, k int, r recorded, n *node) {
	log := w.logs[name]
	got := valueOf(remembered(r)[keys[k]])
	selects := w.policies[len(w.policies)-1].selects[k]
	lives := n != nil && !n.deleting && selects
	excuse, wrong := log.judge(k, got, w.scenario.guards, lives)
	if wrong != "" {
		w.fail("%s %s of %s is recorded as %d; a client wanted %d", wrong, keys[k], name, got, log.question(k).Last())
	}
	w.excused(name, excuse)
	if n == nil {
		log.settle(k, got)
		return
	}
	shown := n.former.items[k]
	switch {
	case shown.Value == got, n.deleting:
	case shown.Value == oracle.NoValue && w.scenario.neverRestores(k) && selects:
		return
	case shown.Owner == oracle.Kubelet && shown.Value != oracle.NoValue, shown.Claimed && got == oracle.NoValue:
		w.shows[oracle.Hidden]++
		return
	case !selects:
		w.shows[oracle.Unselected]++
		return
	case isTaintKey(k) && shown.Value != oracle.NoValue && shown.Brought == shown.Value: // the kubelet's own
		w.shows[oracle.Hidden]++
		return
	case !w.scenario.guards && (isTaintKey(k) || isProtected(k)) && shown.Value != oracle.NoValue && shown.Value == shown.Given, shown.Forged:
		w.shows[oracle.Unguarded]++
		return
	default:
		w.fail("Node %s shows %s as %d; %d is recorded", name, keys[k], shown.Value, got)
	}
	if selects && shown.Owner != oracle.Kubelet && !shown.Claimed {
		log.settle(k, got)
	}
}

// question returns what the oracle is asked of a key.
func (log *nodeLog) question(k int) oracle.Question {
	q := oracle.Question{
		Taint: isTaintKey(k), From: log.settledAt[k], Settled: log.settled[k],
		Order: func(i int) int { return log.order(i, k) },
	}
	for _, p := range log.states {
		q.Log = append(q.Log, oracle.State{Object: p.object, Edited: p.edited[k], Bare: p.bare, Item: p.items[k]})
	}
	return q
}

// judge says which limit excuses the recorded state, or how it is wrong.
func (log *nodeLog) judge(k int, got oracle.Value, guards, lives bool) (excuse oracle.Excuse, wrong string) {
	q := log.question(k)
	q.Careful = !guards && (isTaintKey(k) || isProtected(k))
	if got == q.Last() {
		return oracle.Promised, ""
	}
	if log.forgets && log.asNew(k, got, lives) {
		if log.lost {
			return oracle.Lost, ""
		}
		return oracle.Promised, ""
	}
	for _, undone := range []bool{false, true} {
		for set := range subsets(log.uncertain(k, undone)) {
			q.Seen = log.observedBy(k, set, undone)
			if a := q.Wanted(); a.Allows(got) {
				if undone {
					return oracle.SlowWriter, ""
				}
				if a.Excuse == oracle.Promised {
					a.Excuse = oracle.Unobserved // by a process that stopped in the middle
				}
				return a.Excuse, ""
			}
		}
	}
	if !guards && log.stampedSince(k, got) {
		return oracle.Unguarded, ""
	}
	if log.tooFar {
		return oracle.TooFarBehind, ""
	}
	for i := len(log.states) - 1; i >= 0; i-- {
		if log.states[i].items[k].Forged && !isTaintKey(k) && !isProtected(k) {
			return oracle.Unguarded, ""
		}
	}
	if got == oracle.NoValue {
		return oracle.Promised, "lost:"
	}
	if log.lost && slices.ContainsFunc(log.states[:log.forgotAt], func(p *formerNode) bool { return p.items[k].Value == got }) {
		return oracle.Lost, "" // what was observed after it is observed no more
	}
	if q.Last() == oracle.NoValue {
		return oracle.Promised, "risen:"
	}
	return oracle.Promised, "stale:"
}

// asNew reports whether a record may say this if it knows nothing of before, or only what an older one knew. What a live Node shows, it knows,
// unless that is the kubelet's own.
func (log *nodeLog) asNew(k int, got oracle.Value, lives bool) bool {
	if len(log.states) == 0 {
		return got == oracle.NoValue
	}
	last := log.states[len(log.states)-1].items[k]
	kubelets := last.Owner == oracle.Kubelet || last.Claimed || isTaintKey(k) && last.Brought == last.Value
	return got == last.Value || got == valueOf(log.restored[keys[k]]) || got == oracle.NoValue && (!lives || kubelets)
}

// stampedSince reports whether a Node showed the value, as the stamp lists it, after the record had been collected, and was observed. The stamp
// of a key that the record does not know proves nothing without the guard policies. So the value counts as a client's, until a decision of
// a client is observed.
func (log *nodeLog) stampedSince(k int, value oracle.Value) bool {
	if !log.forgets || value == oracle.NoValue {
		return false
	}
	observed := false // any state from this one until the next decision, or the end of the object
	for i := len(log.states) - 1; i >= log.forgotAt; i-- {
		p := log.states[i]
		if next := i + 1; next < len(log.states) && (log.states[next].object != p.object || log.states[next].edited[k]) {
			observed = false
		}
		observed = observed || log.observed[i].possibly
		if listed, _ := p.items[k].Listed(); p.items[k].Value == value && listed == value && log.observed[i].possibly {
			return true
		}
		if p.edited[k] && observed {
			return false
		}
	}
	return false
}

// subsets returns the sets of states that may have been observed: all of them, where there are few groups.
func subsets(groups [][]int) func(yield func(map[int]bool) bool) {
	return func(yield func(map[int]bool) bool) {
		if limit := 14; len(groups) > limit {
			groups = groups[len(groups)-limit:]
		}
		for bits := range 1 << len(groups) {
			set := map[int]bool{}
			for i, states := range groups {
				for _, pos := range states {
					if bits&(1<<i) != 0 {
						set[pos] = true
					}
				}
			}
			if !yield(set) {
				return
			}
		}
	}
}

// settle closes what was decided so far: from now on, only what happens next may change the record.
func (log *nodeLog) settle(k int, value oracle.Value) {
	log.settledAt[k], log.settled[k] = len(log.states), value
}

// checkRule checks that the rule's taint follows its label.
func (w *cluster) checkRule(n *node) {
	want := noValue
	for _, taint := range rulesTaints(w.policies[len(w.policies)-1].policyFile, n.labels) {
		want = taint.Value
	}
	shown, ok := n.items()[ruleTaint]
	if shown == want && (ok || want == noValue) {
		return
	}
	if w.logs[n.name].forgedRules {
		w.shows[oracle.Unguarded]++
		return
	}
	w.fail("rule: %s shows %s as %q; its labels want %q", n.name, ruleTaint, shown, want)
}

// checkOwners checks that nodekeep owns no label whose owner it knows.
func (w *cluster) checkOwners(n *node, r recorded) {
	for key, owners := range ownersIn(r) {
		if slices.Contains(n.owners[key], ourManager) {
			w.fail("%s: nodekeep owns %s, which is of %s", n.name, key, owners)
		}
	}
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
