package oracle

import (
	"math"
	"slices"
)

// decided is one decision of a client. It has the state of the decision, and the states until the next decision about the same key.
type decided struct {
	Question
	start, at, until, end int // of the object; of the decision; of the object
}

// answer returns what the decision means, or why nobody can know of it.
func (d decided) answer() (a Answer, unknown Excuse) {
	made := d.Log[d.at]
	a.Value = made.Value
	switch forged := d.forged(); {
	case forged && d.Careful:
		return a, Unguarded
	case forged:
		return Answer{any: true, Why: Unguarded}, Promised
	}
	listed, since := made.Listed()
	back := made.Back(d.Taint)
	if back && d.corrected() {
		return Answer{any: true, Why: SetBack}, Promised
	}
	visible, only := d.visible()
	if !visible {
		if only == Unguarded {
			a.shown = d.restored()
		}
		return a, only
	}
	a.either, a.listed, a.Why = d.ambiguous(listed)
	if d.Careful && d.overtaken() {
		return a, Unguarded
	}

	switch {
	case back && d.Careful: // nor does it prove that the taint was removed in between
		return a, Unguarded
	case back:
		for p := max(since, d.start); p < d.at; p++ {
			if was := d.Log[p]; d.Seen(p) == Observed && was.Owner != Kubelet && was.Value != made.Value && was.ListedAs(made.Item) {
				return a, Promised
			}
		}
		return a, SetBack
	case made.Value == None:
		if proved, only := d.proved(); !proved {
			return a, only
		}
	}
	return a, Promised
}

// claimed reports whether an annotation claims the key for another component. While it is not remembered, that hides it.
func (d decided) claimed() bool {
	return slices.ContainsFunc(d.Log[d.at:d.until], func(s State) bool { return s.Claimed })
}

// forged reports whether a kubelet forged what is known of the key before the next decision about it.
func (d decided) forged() bool {
	return slices.ContainsFunc(d.Log[d.at:d.end], func(s State) bool { return s.Forged })
}

// visible reports whether a state was observed that shows the decision.
func (d decided) visible() (visible bool, unless Excuse) {
	unless = Unobserved
	made := d.Log[d.at]
	for j := d.at + 1; j < len(d.Log); j++ { // what nodekeep gave a later object is as good
		if d.Seen(j) != NotObserved && d.Log[j].stamped(d.at, d.until) && d.Log[j].Value == made.Value && !d.Careful {
			return true, Promised
		}
	}
	for j := d.at; j < d.until; j++ {
		shown := d.Log[j]
		covered := shown.Owner == Kubelet && shown.Value != None || made.Decision(d.Taint) && !shown.Decision(d.Taint)
		if d.Careful && made.Value == None && slices.Contains(d.restored(), shown.Value) && shown.Value == shown.Given {
			continue // only the stamp shows that the key was absent before
		}
		switch saw := d.Seen(j); {
		case saw == NotObserved:
		case covered:
			unless = max(unless, Hidden)
		case saw == WhileUnselected && shown.Value != None:
			unless = max(unless, Unselected)
		default:
			return true, Promised
		}
	}
	if made.Value == None && len(d.restored()) > 0 { // on a state without the key
		if d.Careful { // but only the stamp says so
			return false, Unguarded
		}
		return true, Promised
	}
	return false, unless
}

// restored returns the observed values that nodekeep set on the object after the decision and before the next one.
func (d decided) restored() (values []Value) {
	for j := d.at; j < d.end; j++ {
		if i := d.Log[j]; d.Seen(j) != NotObserved && i.Owner != Kubelet && i.Given != None && i.Since > d.at && i.Since <= d.until {
			values = append(values, i.Given)
		}
	}
	return values
}

// ambiguous reports whether a process can miss that the decision is still in force. Such a process observes the decision only after a newer state.
func (d decided) ambiguous(listed Value) (yes bool, value Value, why Excuse) {
	made := d.Log[d.at]
	for j := d.at + 1; j < d.end; j++ {
		shown := d.Log[j]
		listedThen, _ := shown.Listed()
		switch {
		case d.Seen(j) == NotObserved:
		case made.Value != None && shown.Owner == Kubelet && shown.Value != None && (listed == None || listedThen == None):
			return true, None, Hidden
		case d.Seen(j) == WhileUnselected && shown.Value != None && (made.Value != None || d.Taint && listed != None):
			return true, listed, Unselected
		}
	}
	for p := d.start; p <= d.at; p++ {
		was := d.Log[p]
		l, _ := was.Listed()
		switch {
		case was.Edited && was.Back(d.Taint) && d.since(p).corrected():
			return true, l, SetBack
		case d.Seen(p) != NotObserved && l != None && (was.Value == None || was.Decision(d.Taint)) && d.unstampedAfter(p):
			return true, None, Unstamped
		}
	}
	return false, None, Promised
}

// late reports whether another value that the object had before may have been recorded only after the decision. The newer state showed what the stamp
// lists. If the stamp proves nothing, the record does not show whether it had the key at all.
func (d decided) late() bool {
	for p := d.start; p < d.at; p++ {
		if d.Seen(p) == Observed && d.Log[p].Decision(d.Taint) {
			return true
		}
	}
	return false
}

// overtaken reports whether a later state was observed before the decision that shows what nodekeep restored from an older record. Where
// the stamp proves nothing, only that observation can prove that the object had the key.
func (d decided) overtaken() bool {
	var known int
	if d.Log[d.at].Value == None {
		shown := d.firstOf(d.start, d.at, func(j int) bool { return d.Seen(j) == Observed && d.Log[j].Decision(d.Taint) })
		known = max(shown, d.firstOf(d.at, d.until, func(j int) bool { return d.Seen(j) != NotObserved }))
	} else {
		known = d.firstOf(d.at, d.until, func(j int) bool { return d.Seen(j) == Observed })
	}
	for j := d.at + 1; j < len(d.Log); j++ {
		i := d.Log[j]
		listed, since := i.Listed()
		restored := listed != None && i.Value == listed && (j >= d.end || since > d.at)
		if restored && d.Seen(j) != NotObserved && d.Order(j) < known {
			return true
		}
	}
	return false
}

// firstOf returns when the first of some states was observed; if none was, never.
func (d decided) firstOf(from, until int, counts func(at int) bool) (first int) {
	first = math.MaxInt
	for j := from; j < until; j++ {
		if counts(j) {
			first = min(first, d.Order(j))
		}
	}
	return first
}

// unstampedAfter reports whether a client removed the annotation after a state of the object.
func (d decided) unstampedAfter(at int) bool {
	return slices.ContainsFunc(d.Log[at+1:d.end], func(s State) bool { return s.Bare })
}

// since returns the same decision as if it had been made by an earlier state.
func (d decided) since(at int) decided {
	d.at = at
	return d
}

// corrected reports whether nodekeep took the value for its own afterwards and corrected it.
func (d decided) corrected() bool {
	return slices.ContainsFunc(d.Log[d.at+1:d.end], func(s State) bool { return !s.ListedAs(d.Log[d.at].Item) })
}

// proved reports whether what was observed distinguishes a removal from a key that the object never had.
func (d decided) proved() (yes bool, unless Excuse) {
	unless = UntracedRemoval
	made := d.Log[d.at]
	for j := d.at; j < d.until; j++ { // the stamp lists it, and the same since before the removal
		if l, _ := made.Listed(); l != None && d.Seen(j) != NotObserved && d.Log[j].ListedAs(made.Item) {
			if !d.Careful {
				return true, Promised
			}
			unless = Unguarded
		}
	}
	for p := d.start; p < d.at; p++ {
		was := d.Log[p]
		if d.Seen(p) == Observed && was.Decision(d.Taint) && !was.Void {
			return true, Promised
		}
		if listed, _ := was.Listed(); d.Careful && d.Seen(p) == Observed && was.Value != None && was.Value == listed {
			unless = Unguarded
		}
	}
	return false, unless
}
