package oracle

import "slices"

// Answer is what a record may remember of a key.
type Answer struct {
	Value  Value
	Excuse Excuse
	either bool // or nothing, or a value that the stamp listed
	listed Value
	free   bool    // or whatever else
	older  *Answer // or what it would be without the last decision
	shown  []Value // or one of these
}

// Allows reports whether a record may remember the value.
func (a Answer) Allows(value Value) bool {
	return a.free || value == a.Value || slices.Contains(a.shown, value) || a.older != nil && a.older.Allows(value) ||
		a.either && (value == NoValue || value == a.listed || a.Excuse == Unstamped)
}

// Observation shows whether and how a state was observed.
type Observation int8

// The ways in which a state was observed.
const (
	NotObserved Observation = iota
	WhileUnselected
	Observed
)

// Question is about one key of one name.
type Question struct {
	Log     []State
	Seen    func(i int) Observation
	Order   func(i int) int // in which states were observed, each for the first time; needed if Careful, nil: not known
	Taint   bool
	Careful bool // the stamp proves nothing about the key

	// From is the index of the first state that matters; what was decided before is settled.
	From    int
	Settled Value
}

// Last returns what a client decided last, observed or not.
func (q Question) Last() Value {
	for i := len(q.Log) - 1; i >= q.From; i-- {
		if q.Log[i].Edited && !q.Log[i].Void {
			return q.Log[i].Value
		}
	}
	return q.Settled
}

// Wanted returns what a record can know of what a client decided last, given which states were observed.
func (q Question) Wanted() Answer { return q.wantedUntil(len(q.Log)) }

// wantedUntil returns the same as if the states from that index on did not exist.
func (q Question) wantedUntil(all int) Answer {
	excuse, late := Promised, []Value(nil)
	for i := all - 1; i >= q.From; i-- {
		if !q.Log[i].Edited || q.Log[i].Void {
			continue
		}
		d := decided{Question: q, start: i, time: i, deadline: i + 1, end: i + 1}
		for d.start > 0 && q.Log[d.start-1].Object == q.Log[i].Object {
			d.start--
		}
		for d.end < all && q.Log[d.end].Object == q.Log[i].Object {
			d.end++
		}
		for d.deadline < d.end && !q.Log[d.deadline].Edited {
			d.deadline++
		}
		a, reason := d.answer()
		switch {
		case reason == Unguarded:
			older := q.wantedUntil(i)
			a.older, a.shown, a.Excuse = &older, append(a.shown, q.brought(i)...), Unguarded
			if d.late() {
				a.shown = append(a.shown, NoValue)
			}
		case reason == Hidden: // and if the record has the hidden value after all, so much the better
			late, excuse = append(late, a.Value), max(excuse, Hidden)
			continue
		case reason != Promised:
			excuse = max(excuse, reason)
			continue
		case d.claimed():
			older := q.wantedUntil(i)
			a.older, a.Excuse = &older, Hidden
		}
		a.shown, a.Excuse = append(a.shown, late...), max(a.Excuse, excuse)
		return a
	}
	for i := q.From; i < all; i++ { // a record that was written manually had it
		if q.Log[i].stamped(NoState-1, NoState) && q.Seen(i) != NotObserved {
			late = append(late, q.Log[i].Value)
		}
	}
	if values := q.setBackUnstamped(all); len(values) > 0 {
		excuse, late = max(excuse, Unstamped), append(late, values...)
	}
	return Answer{Value: q.Settled, Excuse: excuse, shown: late}
}

// setBackUnstamped returns stamped values of a taint in states in which the Node did not show it. These states were observed only after a newer one that
// has lost the annotation. That newer state does not show whether the taint was set back.
func (q Question) setBackUnstamped(all int) (values []Value) {
	for p := q.From; q.Taint && q.Order != nil && p < all; p++ {
		prev := q.Log[p]
		listed, _ := prev.Listed()
		if listed == NoValue || prev.Value != NoValue || q.Seen(p) == NotObserved {
			continue
		}
		bare := false
		for j := p + 1; j < all && q.Log[j].Object == prev.Object; j++ {
			bare = bare || q.Log[j].Bare
			if bare && q.Seen(j) != NotObserved && q.Order(j) < q.Order(p) {
				values = append(values, listed)
				break
			}
		}
	}
	return values
}

// brought returns the values observed until then that the Node brought itself, by the stamp. If nothing was recorded of the key, a record takes such a
// value for a client's. A kubelet without guard policies may have written the stamp.
func (q Question) brought(end int) (values []Value) {
	for j := q.From; j < end; j++ {
		if i := q.Log[j]; q.Careful && q.Seen(j) == Observed && i.Value != NoValue && i.Value == i.Brought {
			values = append(values, i.Value)
		}
	}
	return values
}
