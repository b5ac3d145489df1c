package differential

import (
	"maps"
	"slices"
)

// answer is what a label may be: a value, or absent.
type answer string

// absent is no label value: parentheses are not allowed in one.
const absent answer = "(none)"

// limit is a reason why more than one answer is right.
type limit string

// The limits.
const (
	// unwatchedDeletion: the Node was deleted while the webhook was down, and capture did not record the deletion. It was down too, or went down
	// before it did. Edits of that object that no record showed before may be lost.
	unwatchedDeletion limit = "edit lost with its Node, webhook and capture down"
	// unprovenRemoval: a label was removed from an object that had no record yet, and no stamp proves that it existed. The object looks as if it had
	// been created without the label. So the value that it should have had may be restored.
	unprovenRemoval limit = "removal from an object that was not adopted and proves nothing"
)

// label is what the operator wanted of one label of one Node.
type label struct {
	last       answer   // the last edit
	right      []answer // what is right: last alone, unless a limit widened it
	registered []answer // what was right when the Node object registered
	trail      []answer // what was right since a record of this object showed it last; what a lost edit falls back to
	edited     bool     // on this Node object
	// unproven: the last edit is a removal that nothing proves, so the value that was right before may be restored.
	unproven bool
	limits   []limit // what widened right
}

// wanted is the model of one Node: what the operator last wanted.
type wanted struct {
	exists bool
	labels map[string]*label
}

func newWanted(keys []string) *wanted {
	w := &wanted{labels: map[string]*label{}}
	for _, key := range keys {
		w.labels[key] = &label{last: absent, right: []answer{absent}}
	}
	return w
}

// registered: a new Node object.
func (w *wanted) registered() {
	w.exists = true
	for _, l := range w.labels {
		l.registered, l.trail, l.edited = slices.Clone(l.right), slices.Clone(l.right), false
	}
}

// edited: the operator changed the Node. proven is false where nothing shows that a removed label was on this object.
func (w *wanted) edited(key string, value answer, proven bool) {
	l := w.labels[key]
	l.last, l.right, l.edited, l.limits = value, []answer{value}, true, nil
	l.unproven = value == absent && !proven
	if l.unproven {
		l.widen(l.registered, unprovenRemoval)
	}
	l.trail = append(l.trail, l.right...)
}

// recorded: a record of this very object was read. If it shows the last edit, no lost edit falls back to an earlier value. A value that the label had
// twice does not show which of the two was recorded.
func (w *wanted) recorded(record map[string]string) {
	for key, l := range w.labels {
		shown := in(record, key)
		if len(l.right) == 1 && l.right[0] == shown && count(l.trail, shown) == 1 {
			l.trail = []answer{shown}
		}
	}
}

// deleted: the Node object is deleted. The result is what its edits fall back to if they are lost.
func (w *wanted) deleted() (fallBack map[string][]answer) {
	w.exists = false
	fallBack = map[string][]answer{}
	for key, l := range w.labels {
		if len(l.trail) > 1 {
			fallBack[key] = l.trail
		}
	}
	return fallBack
}

// mayBeLost: the edits of an object that was deleted may be lost. The Node may have registered since then.
func (w *wanted) mayBeLost(fallBack map[string][]answer) {
	for key, answers := range fallBack {
		l := w.labels[key]
		if !w.exists || !l.edited || l.unproven {
			l.widen(answers, unwatchedDeletion)
		}
		l.registered = union(l.registered, answers)
		l.trail = union(l.trail, answers)
	}
}

// settled: with everything up and at rest, this is the state, and it counts from now on. For each label, the result names the limits that widened the
// right answers. It also names the limits that were needed, because the state differs from the last edit.
func (w *wanted) settled(actual map[string]string) (open, used []limit) {
	for key, l := range w.labels {
		shown := in(actual, key)
		open = append(open, l.limits...)
		if shown != l.last {
			used = append(used, l.limits...)
		}
		*l = label{last: shown, right: []answer{shown}, registered: []answer{shown}, trail: []answer{shown}, edited: l.edited}
	}
	return open, used
}

// wrong returns the labels that are not as they should be, with what would be right.
func (w *wanted) wrong(actual map[string]string) map[string][]answer {
	wrong := map[string][]answer{}
	for key, l := range w.labels {
		if !slices.Contains(l.right, in(actual, key)) {
			wrong[key] = l.right
		}
	}
	return wrong
}

func (l *label) widen(answers []answer, cause limit) {
	wider := union(l.right, answers)
	if len(wider) > len(l.right) {
		l.right = wider
		if !slices.Contains(l.limits, cause) {
			l.limits = append(l.limits, cause)
		}
	}
}

// in returns what a set of labels answers for a key.
func in(labels map[string]string, key string) answer {
	if value, present := labels[key]; present {
		return answer(value)
	}
	return absent
}

func union(a, b []answer) []answer {
	set := map[answer]bool{}
	for _, answer := range slices.Concat(a, b) {
		set[answer] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func count(in []answer, key answer) (times int) {
	for _, answer := range in {
		if answer == key {
			times++
		}
	}
	return times
}
