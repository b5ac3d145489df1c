package oracle

import (
	"math"
	"slices"
)

// decided is one decision of a client. It has the state of the decision, and the states until the next decision about the same key.
type decided struct {
	Question
	start, time, deadline, end int // of the object; of the decision; of the object
}

// answer returns what the decision means, or why nobody can know of it.
func (d decided) answer() (a Answer, unknown Excuse) {
	made := d.Log[d.time]
	a.Value = made.Value
	switch forged := d.forged(); {
	case forged && d.Careful:
		return a, Unguarded
	case forged:
		return Answer{free: true, Excuse: Unguarded}, Promised
	}
	listed, start := made.Listed()
	restored := made.Restored(d.Taint)
	if restored && d.corrected() {
		return Answer{free: true, Excuse: SetBack}, Promised
	}
	visible, excuse := d.visible()
	if !visible {
		if excuse == Unguarded {
			a.shown = d.restored()
		}
		return a, excuse
	}
	a.either, a.listed, a.Excuse = d.ambiguous(listed)
	if d.Careful && d.overtaken() {
		return a, Unguarded
	}

	switch {
	case restored && d.Careful: // nor does it prove that the taint was removed in between
		return a, Unguarded
	case restored:
		for p := max(start, d.start); p < d.time; p++ {
			if prev := d.Log[p]; d.Seen(p) == Observed && prev.Owner != Kubelet && prev.Value != made.Value && prev.ListedAs(made.Item) {
				return a, Promised
			}
		}
		return a, SetBack
	case made.Value == NoValue:
		if proved, excuse := d.confirmed(); !proved {
			return a, excuse
		}
	}
	return a, Promised
}

// claimed reports whether an annotation claims the key for another component. While it is not remembered, that hides it.
func (d decided) claimed() bool {
	return slices.ContainsFunc(d.Log[d.time:d.deadline], func(s State) bool { return s.Claimed })
}

// forged reports whether a kubelet forged what is known of the key before the next decision about it.
func (d decided) forged() bool {
	return slices.ContainsFunc(d.Log[d.time:d.end], func(s State) bool { return s.Forged })
}

// visible reports whether a state was observed that shows the decision.
func (d decided) visible() (visible bool, excuse Excuse) {
	excuse = Unobserved
	made := d.Log[d.time]
	for j := d.time + 1; j < len(d.Log); j++ { // what nodekeep gave a later object is as good
		if d.Seen(j) != NotObserved && d.Log[j].stamped(d.time, d.deadline) && d.Log[j].Value == made.Value && !d.Careful {
			return true, Promised
		}
	}
	for j := d.time; j < d.deadline; j++ {
		shown := d.Log[j]
		covered := shown.Owner == Kubelet && shown.Value != NoValue || made.Decision(d.Taint) && !shown.Decision(d.Taint)
		if d.Careful && made.Value == NoValue && slices.Contains(d.restored(), shown.Value) && shown.Value == shown.Given {
			continue // only the stamp shows that the key was absent before
		}
		switch saw := d.Seen(j); {
		case saw == NotObserved:
		case covered:
			excuse = max(excuse, Hidden)
		case saw == WhileUnselected && shown.Value != NoValue:
			excuse = max(excuse, Unselected)
		default:
			return true, Promised
		}
	}
	if made.Value == NoValue && len(d.restored()) > 0 { // on a state without the key
		if d.Careful { // but only the stamp says so
			return false, Unguarded
		}
		return true, Promised
	}
	return false, excuse
}

// restored returns the observed values that nodekeep set on the object after the decision and before the next one.
func (d decided) restored() (values []Value) {
	for j := d.time; j < d.end; j++ {
		if i := d.Log[j]; d.Seen(j) != NotObserved && i.Owner != Kubelet && i.Given != NoValue && i.Start > d.time && i.Start <= d.deadline {
			values = append(values, i.Given)
		}
	}
	return values
}

// ambiguous reports whether a process can miss that the decision is still in force. Such a process observes the decision only after a newer state.
func (d decided) ambiguous(listed Value) (yes bool, value Value, excuse Excuse) {
	made := d.Log[d.time]
	for j := d.time + 1; j < d.end; j++ {
		shown := d.Log[j]
		listedThen, _ := shown.Listed()
		switch {
		case d.Seen(j) == NotObserved:
		case made.Value != NoValue && shown.Owner == Kubelet && shown.Value != NoValue && (listed == NoValue || listedThen == NoValue):
			return true, NoValue, Hidden
		case d.Seen(j) == WhileUnselected && shown.Value != NoValue && (made.Value != NoValue || d.Taint && listed != NoValue):
			return true, listed, Unselected
		}
	}
	for p := d.start; p <= d.time; p++ {
		prev := d.Log[p]
		l, _ := prev.Listed()
		switch {
		case prev.Edited && prev.Restored(d.Taint) && d.from(p).corrected():
			return true, l, SetBack
		case d.Seen(p) != NotObserved && l != NoValue && (prev.Value == NoValue || prev.Decision(d.Taint)) && d.unstampedAfter(p):
			return true, NoValue, Unstamped
		}
	}
	return false, NoValue, Promised
}

// late reports whether another value that the object had before may have been recorded only after the decision. The newer state showed what the stamp
// lists. If the stamp proves nothing, the record does not show whether it had the key at all.
func (d decided) late() bool {
	for p := d.start; p < d.time; p++ {
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
	if d.Log[d.time].Value == NoValue {
		shown := d.firstOf(d.start, d.time, func(j int) bool { return d.Seen(j) == Observed && d.Log[j].Decision(d.Taint) })
		known = max(shown, d.firstOf(d.time, d.deadline, func(j int) bool { return d.Seen(j) != NotObserved }))
	} else {
		known = d.firstOf(d.time, d.deadline, func(j int) bool { return d.Seen(j) == Observed })
	}
	for j := d.time + 1; j < len(d.Log); j++ {
		i := d.Log[j]
		listed, start := i.Listed()
		restored := listed != NoValue && i.Value == listed && (j >= d.end || start > d.time)
		if restored && d.Seen(j) != NotObserved && d.Order(j) < known {
			return true
		}
	}
	return false
}

// firstOf returns when the first of some states was observed; if none was, never.
func (d decided) firstOf(from, end int, counts func(i int) bool) (first int) {
	first = math.MaxInt
	for j := from; j < end; j++ {
		if counts(j) {
			first = min(first, d.Order(j))
		}
	}
	return first
}

// unstampedAfter reports whether a client removed the annotation after a state of the object.
func (d decided) unstampedAfter(i int) bool {
	return slices.ContainsFunc(d.Log[i+1:d.end], func(s State) bool { return s.Bare })
}

// from returns the same decision as if it had been made by an earlier state.
func (d decided) from(i int) decided {
	d.time = i
	return d
}

// corrected reports whether nodekeep took the value for its own afterwards and corrected it.
func (d decided) corrected() bool {
	return slices.ContainsFunc(d.Log[d.time+1:d.end], func(s State) bool { return !s.ListedAs(d.Log[d.time].Item) })
}

// confirmed reports whether what was observed distinguishes a removal from a key that the object never had.
func (d decided) confirmed() (yes bool, excuse Excuse) {
	excuse = UntracedRemoval
	made := d.Log[d.time]
	for j := d.time; j < d.deadline; j++ { // the stamp lists it, and the same since before the removal
		if l, _ := made.Listed(); l != NoValue && d.Seen(j) != NotObserved && d.Log[j].ListedAs(made.Item) {
			if !d.Careful {
				return true, Promised
			}
			excuse = Unguarded
		}
	}
	for p := d.start; p < d.time; p++ {
		prev := d.Log[p]
		if d.Seen(p) == Observed && prev.Decision(d.Taint) && !prev.Void {
			return true, Promised
		}
		if listed, _ := prev.Listed(); d.Careful && d.Seen(p) == Observed && prev.Value != NoValue && prev.Value == listed {
			excuse = Unguarded
		}
	}
	return false, excuse
}
