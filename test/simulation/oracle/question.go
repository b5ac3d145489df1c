package oracle

import "slices"

// Answer is what a record may remember of a key.
type Answer struct {
	Value  Value
	Why    Excuse
	either bool // or nothing, or a value that the stamp listed
	listed Value
	any    bool    // or whatever else
	older  *Answer // or what it would be without the last decision
	shown  []Value // or one of these
}

// Allows reports whether a record may remember the value.
func (a Answer) Allows(value Value) bool {
	return a.any || value == a.Value || slices.Contains(a.shown, value) || a.older != nil && a.older.Allows(value) ||
		a.either && (value == None || value == a.listed || a.Why == Unstamped)
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
	Seen    func(at int) Observation
	Order   func(at int) int // in which states were observed, each for the first time; needed if Careful, nil: not known
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
	why, late := Promised, []Value(nil)
	for at := all - 1; at >= q.From; at-- {
		if !q.Log[at].Edited || q.Log[at].Void {
			continue
		}
		d := decided{Question: q, start: at, at: at, until: at + 1, end: at + 1}
		for d.start > 0 && q.Log[d.start-1].Object == q.Log[at].Object {
			d.start--
		}
		for d.end < all && q.Log[d.end].Object == q.Log[at].Object {
			d.end++
		}
		for d.until < d.end && !q.Log[d.until].Edited {
			d.until++
		}
		a, reason := d.answer()
		switch {
		case reason == Unguarded:
			older := q.wantedUntil(at)
			a.older, a.shown, a.Why = &older, append(a.shown, q.brought(at)...), Unguarded
			if d.late() {
				a.shown = append(a.shown, None)
			}
		case reason == Hidden: // and if the record has the hidden value after all, so much the better
			late, why = append(late, a.Value), max(why, Hidden)
			continue
		case reason != Promised:
			why = max(why, reason)
			continue
		case d.claimed():
			older := q.wantedUntil(at)
			a.older, a.Why = &older, Hidden
		}
		a.shown, a.Why = append(a.shown, late...), max(a.Why, why)
		return a
	}
	for at := q.From; at < all; at++ { // a record that was written manually had it
		if q.Log[at].stamped(NoState-1, NoState) && q.Seen(at) != NotObserved {
			late = append(late, q.Log[at].Value)
		}
	}
	if values := q.setBackUnstamped(all); len(values) > 0 {
		why, late = max(why, Unstamped), append(late, values...)
	}
	return Answer{Value: q.Settled, Why: why, shown: late}
}

// setBackUnstamped returns stamped values of a taint in states in which the Node did not show it. These states were observed only after a newer one that
// has lost the annotation. That newer state does not show whether the taint was set back.
func (q Question) setBackUnstamped(all int) (values []Value) {
	for p := q.From; q.Taint && q.Order != nil && p < all; p++ {
		was := q.Log[p]
		listed, _ := was.Listed()
		if listed == None || was.Value != None || q.Seen(p) == NotObserved {
			continue
		}
		bare := false
		for j := p + 1; j < all && q.Log[j].Object == was.Object; j++ {
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
func (q Question) brought(until int) (values []Value) {
	for j := q.From; j < until; j++ {
		if i := q.Log[j]; q.Careful && q.Seen(j) == Observed && i.Value != None && i.Value == i.Brought {
			values = append(values, i.Value)
		}
	}
	return values
}
