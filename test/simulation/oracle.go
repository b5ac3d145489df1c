package main

// An excuse is a limit of docs/design.md, section 5.8: no rule can do better, because no process can know. The last two have to do with
// policies that change and with clients that remove annotations.
type excuse int8

// The excuses.
const (
	promised        excuse = iota // none: what a client wanted last
	unobserved                    // an edit whose Node was deleted while the DELETE handler was down and before capture observed it
	untracedRemoval               // a removal of a key that no process ever observed on that object
	setBack                       // a taint set back to exactly the listed value, with nobody observing what was between
	hidden                        // a kubelet overwrote an edit before anybody observed it
	slowWriter                    // an older state written by a slow capture after a fast one observed the newer one without a write
	tooFarBehind                  // more than eight objects behind
	unselected                    // the policy did not select the key when it was observed last
	unstamped                     // a client removed the annotation that proved what happened before
	excuses
)

func (e excuse) String() string {
	return [...]string{
		"promised", "edit never observed", "removal of a key that was never observed on the object", "taint set back to the listed value unobserved",
		"hidden by the kubelet", "older state written by a slow capture", "more than 8 objects behind", "not selected by the policy", "annotation removed by a client",
	}[e]
}

// answer is what a record may remember of a key.
type answer struct {
	value  int8
	either bool // or nothing, or a value that the stamp listed
	listed int8
	any    bool // or whatever else
	why    excuse
}

func (a answer) allows(value int8) bool {
	return a.any || value == a.value || a.either && (value == none || value == a.listed && value != none || a.why == unstamped)
}

// sight says how a state was observed.
type sight int8

const (
	notObserved sight = iota
	whileUnselected
	observed
)

// last is what a client decided last about a key, observed or not.
func last(log []*state, k int) int8 {
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].edited[k] && !log[i].void {
			return log[i].items[k].value
		}
	}
	return none
}

// wanted is what a record can know of what a client decided last about a key, given which states were observed. It looks at who did
// what, and never at a record.
func wanted(log []*state, seen func(at int) sight, k int, taint bool) answer {
	why := promised
	for end := len(log); end > 0; {
		start := end - 1
		for start > 0 && log[start-1].object == log[end-1].object {
			start--
		}
		if a, decided := wantedOf(log, seen, k, taint, start, end, &why); decided {
			a.why = max(a.why, why)
			return a
		}
		end = start
	}
	return answer{value: none, why: why}
}

// wantedOf is the same for one object, whose states are those from start to end.
func wantedOf(log []*state, seen func(at int) sight, k int, taint bool, start, end int, why *excuse) (a answer, decided bool) {
	for i := end - 1; i >= start; i-- {
		if !log[i].edited[k] || log[i].void {
			continue
		}
		until := i + 1
		for until < end && !log[until].edited[k] {
			until++
		}
		e := edit{log: log, seen: seen, k: k, taint: taint, start: start, at: i, until: until, end: end}
		a, reason := e.answer()
		if reason == promised {
			return a, true
		}
		*why = max(*why, reason)
	}
	return answer{}, false
}

// edit is one decision of a client: the state that it made, and those after it until the next decision about the same key.
type edit struct {
	log                   []*state
	seen                  func(at int) sight
	k                     int
	taint                 bool
	start, at, until, end int // of the object; of the decision; of the object
}

// answer is what the decision means, or why nobody can know of it.
func (e edit) answer() (a answer, unknown excuse) {
	made := e.log[e.at].items[e.k]
	a.value = made.value
	listed, since := made.listed()
	back := e.taint && made.value != none && made.value == listed
	if back && e.corrected() {
		return answer{any: true, why: setBack}, promised
	}
	visible, only := e.visible()
	if !visible {
		return a, only
	}
	a.either, a.listed, a.why = e.ambiguous(listed)

	switch {
	case back:
		for p := max(int(since), e.start); p < e.at; p++ {
			if was := e.log[p].items[e.k]; e.seen(p) == observed && was.value != made.value && was.listedAs(made) {
				return a, promised
			}
		}
		return a, setBack
	case made.value == none && !e.proved():
		return a, untracedRemoval
	}
	return a, promised
}

// visible reports whether a state was observed that shows the decision.
func (e edit) visible() (visible bool, unless excuse) {
	unless = unobserved
	for j := e.at; j < e.until; j++ {
		shown := e.log[j].items[e.k]
		covered := shown.owner == kubelet && shown.value != none
		switch saw := e.seen(j); {
		case saw == notObserved:
		case covered:
			unless = max(unless, hidden)
		case saw == whileUnselected && shown.value != none:
			unless = max(unless, unselected)
		default:
			return true, promised
		}
	}
	if e.log[e.at].items[e.k].value == none {
		for j := e.at; j < e.end; j++ { // what nodekeep set since then, it set on a state without the key
			if i := e.log[j].items[e.k]; e.seen(j) != notObserved && i.owner != kubelet && i.given != none && int(i.since) > e.at && int(i.since) <= e.until {
				return true, promised
			}
		}
	}
	return false, unless
}

// ambiguous reports whether something hides from whoever observes the decision only after a newer state that it is still in force.
func (e edit) ambiguous(listed int8) (yes bool, value int8, why excuse) {
	made := e.log[e.at].items[e.k]
	for j := e.at + 1; j < e.end; j++ {
		shown := e.log[j].items[e.k]
		listedThen, _ := shown.listed()
		switch {
		case e.seen(j) == notObserved:
		case made.value != none && shown.owner == kubelet && shown.value != none && (listed == none || listedThen == none):
			return true, none, hidden
		case e.seen(j) == whileUnselected && shown.value != none && (made.value != none || e.taint && listed != none):
			return true, listed, unselected
		}
	}
	for p := e.start; p <= e.at; p++ {
		was := e.log[p].items[e.k]
		l, _ := was.listed()
		switch {
		case e.taint && e.log[p].edited[e.k] && was.value != none && was.value == l && e.since(p).corrected():
			return true, l, setBack
		case e.seen(p) != notObserved && l != none && (was.value == none || was.decision(e.taint)) && e.unstampedAfter(p):
			return true, none, unstamped
		}
	}
	return false, none, promised
}

// unstampedAfter reports whether a client removed the annotation after a state of the object.
func (e edit) unstampedAfter(at int) bool {
	for j := at + 1; j < e.end; j++ {
		if e.log[j].bare {
			return true
		}
	}
	return false
}

// since is the same edit as if it had been made by an earlier state.
func (e edit) since(at int) edit {
	e.at = at
	return e
}

// corrected reports whether nodekeep took the value for its own afterwards and corrected it.
func (e edit) corrected() bool {
	made := e.log[e.at].items[e.k]
	for j := e.at + 1; j < e.end; j++ {
		if now := e.log[j].items[e.k]; !now.listedAs(made) {
			return true
		}
	}
	return false
}

// proved reports whether what was observed tells a removal from a key that the object never had.
func (e edit) proved() bool {
	made := e.log[e.at].items[e.k]
	for j := e.at; j < e.until; j++ { // the stamp lists it, and the same since before the removal
		if l, _ := made.listed(); l != none && e.seen(j) != notObserved && e.log[j].items[e.k].listedAs(made) {
			return true
		}
	}
	for p := e.start; p < e.at; p++ {
		was := e.log[p].items[e.k]
		if e.seen(p) == observed && was.decision(e.taint) && !e.log[p].void {
			return true
		}
	}
	return false
}
