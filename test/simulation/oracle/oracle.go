// Package oracle says what a record may remember of a key, given what happened to the Nodes of one name and which states were observed.
// The model checker (test/simulation) and the simulation (capture) ask it. It never looks at a record, and shares no code with the product.
package oracle

import (
	"math"
	"slices"
)

// An Excuse is a known limit of docs/design.md, section 5: no rule can do better, because no process can know.
type Excuse int

// The excuses. Nothing else is forgiven.
const (
	Promised        Excuse = iota // none: what a client wanted last
	Unobserved                    // an edit whose Node was deleted while the DELETE handler was down and before capture observed it
	UntracedRemoval               // a removal of a key that no process ever observed on that object
	SetBack                       // a taint set back to exactly the listed value, with nobody observing what was between
	Hidden                        // a kubelet overwrote an edit, or claimed its key, before anybody observed it
	SlowWriter                    // an older state written by a slow capture after a fast one observed the newer one without a write
	TooFarBehind                  // more than eight objects behind
	Unselected                    // the policy did not select the key when it was observed last
	Unstamped                     // a client removed the annotation that proved what happened before
	Unguarded                     // without the guard policies the stamp of a protected label or taint proves nothing, and kubelets forge it
	Excuses                       // how many there are
)

func (e Excuse) String() string {
	return [...]string{
		"promised", "edit never observed", "removal of a key that was never observed on the object", "taint set back to the listed value unobserved",
		"hidden by the kubelet", "older state written by a slow capture", "more than 8 objects behind", "not selected by the policy",
		"annotation removed by a client", "no guard policies",
	}[e]
}

// Value is that of a label or taint; which text it stands for is the caller's.
type Value = int8

// None is the value of a key that is not there.
const None Value = 0

// Owner says who set an item, as far as the API server shows.
type Owner int8

// The owners.
const (
	Nobody  Owner = iota // a taint, or a label that no field manager but nodekeep owns
	Client               // a client
	Kubelet              // only components that set it again by themselves, or an annotation claims it for one
)

// Item is one key in one state of a Node object.
type Item struct {
	Value   Value
	Owner   Owner
	Given   Value // the stamp lists that nodekeep set this value
	Since   int   // in its PATCH on the state before that index; 0: in the CREATE
	Brought Value // the stamp lists that the Node had this value in its CREATE
	Rule    Value // the annotation lists this value as derived from a label
	Claimed bool  // an annotation claims a protected label for another component
	Forged  bool  // the kubelet has forged the evidence about this key on this object
}

// State is one state of a Node object, as far as it is about one key.
type State struct {
	Object int  // 1, 2, ... in the order of registration
	Edited bool // a client, or another admission policy, decided on the key by this change
	Bare   bool // a client removed the annotation by this change
	Void   bool // an operator's decision about a machine made earlier edits meaningless
	Item
}

// Listed is what the stamp says that the object had, and since when.
func (i Item) Listed() (value Value, since int) {
	if i.Given != None {
		return i.Given, i.Since
	}
	return i.Brought, 0
}

// ListedAs reports whether the stamp says the same of two states of an item.
func (i Item) ListedAs(other Item) bool {
	return i.Given == other.Given && i.Since == other.Since && i.Brought == other.Brought
}

// Derived reports whether the item is a taint that nodekeep derived from a label.
func (i Item) Derived() bool { return i.Value != None && i.Rule == i.Value }

// Decision reports whether the item shows a decision of a client or of another admission policy, by all that can be known.
func (i Item) Decision(taint bool) bool {
	untouched := i.Owner == Nobody && (i.Value == i.Given || taint && i.Value == i.Brought)
	return i.Value != None && i.Owner != Kubelet && !untouched && !i.Derived()
}

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

// Sight says how a state was observed.
type Sight int8

// The ways in which a state was observed.
const (
	NotObserved Sight = iota
	WhileUnselected
	Observed
)

// Question is about one key of one name.
type Question struct {
	Log     []State
	Seen    func(at int) Sight
	Order   func(at int) int // in which states were observed, each for the first time; needed if Careful
	Taint   bool
	Careful bool // the stamp proves nothing about the key

	// From is the index of the first state that matters; what was decided before is settled.
	From    int
	Settled Value
}

// Last is what a client decided last, observed or not.
func (q Question) Last() Value {
	for i := len(q.Log) - 1; i >= q.From; i-- {
		if q.Log[i].Edited && !q.Log[i].Void {
			return q.Log[i].Value
		}
	}
	return q.Settled
}

// Wanted is what a record can know of what a client decided last, given which states were observed.
func (q Question) Wanted() Answer { return q.wantedUntil(len(q.Log)) }

// wantedUntil is the same as if the states from that index on did not exist.
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
			a.older, a.shown, a.Why = &older, q.brought(at), Unguarded
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
	return Answer{Value: q.Settled, Why: why, shown: late}
}

// brought are the values that were observed until then and that the stamp says the Node brought itself. Where nothing was recorded of the
// key, a record takes such a value for a client's: a kubelet without guard policies may have written the stamp.
func (q Question) brought(until int) (values []Value) {
	for j := q.From; j < until; j++ {
		if i := q.Log[j]; q.Careful && q.Seen(j) == Observed && i.Value != None && i.Value == i.Brought {
			values = append(values, i.Value)
		}
	}
	return values
}

// decided is one decision of a client: the state that it made, and those after it until the next decision about the same key.
type decided struct {
	Question
	start, at, until, end int // of the object; of the decision; of the object
}

// answer is what the decision means, or why nobody can know of it.
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
	back := d.Taint && made.Value != None && made.Value == listed
	if back && d.corrected() {
		return Answer{any: true, Why: SetBack}, Promised
	}
	visible, only := d.visible()
	if !visible {
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
			if was := d.Log[p]; d.Seen(p) == Observed && was.Value != made.Value && was.ListedAs(made.Item) {
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
	for j := d.at; j < d.until; j++ {
		shown := d.Log[j]
		covered := shown.Owner == Kubelet && shown.Value != None || made.Decision(d.Taint) && !shown.Decision(d.Taint)
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
	if made.Value == None {
		for j := d.at; j < d.end; j++ { // what nodekeep set since then, it set on a state without the key
			if i := d.Log[j]; d.Seen(j) != NotObserved && i.Owner != Kubelet && i.Given != None && i.Since > d.at && i.Since <= d.until {
				return true, Promised
			}
		}
	}
	return false, unless
}

// ambiguous reports whether something hides from whoever observes the decision only after a newer state that it is still in force.
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
		case d.Taint && was.Edited && was.Value != None && was.Value == l && d.since(p).corrected():
			return true, l, SetBack
		case d.Seen(p) != NotObserved && l != None && (was.Value == None || was.Decision(d.Taint)) && d.unstampedAfter(p):
			return true, None, Unstamped
		}
	}
	return false, None, Promised
}

// late reports whether another value that the object had before the decision may have been recorded only after it. The newer state showed
// what the stamp lists: where the stamp proves nothing, the record cannot say whether it had the key at all.
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

// firstOf is when the first of some states was observed; if none was, never.
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

// since is the same decision as if it had been made by an earlier state.
func (d decided) since(at int) decided {
	d.at = at
	return d
}

// corrected reports whether nodekeep took the value for its own afterwards and corrected it.
func (d decided) corrected() bool {
	return slices.ContainsFunc(d.Log[d.at+1:d.end], func(s State) bool { return !s.ListedAs(d.Log[d.at].Item) })
}

// proved reports whether what was observed tells a removal from a key that the object never had.
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
