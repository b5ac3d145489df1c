package capture_test

import (
	"math"
	"slices"
)

// What a record may remember of a key, given what happened to the Nodes of its name and which states were observed. Nothing here looks
// at a record or shares code with the product. test/simulation/oracle.go is the same for one key of the exhaustive model.

// An excuse is a known limit of docs/design.md, section 5: no rule can do better, because no process can know.
type excuse int

// The excuses. Nothing else is forgiven.
const (
	promised        excuse = iota // none: what a client wanted last
	unobserved                    // an edit whose Node was deleted while the DELETE handler was down and before capture observed it
	untracedRemoval               // a removal of a key that no process ever observed on that object
	setBack                       // a taint set back to exactly the listed value, with nobody observing what was between
	hidden                        // a kubelet overwrote an edit, or claimed its key, before anybody observed it
	slowWriter                    // an older state written by a slow capture after a fast one observed the newer one without a write
	tooFarBehind                  // more than eight objects behind
	unselected                    // the policy did not select the key when it was observed last
	unstamped                     // a client removed the annotation that proved what happened before
	unguarded                     // without the guard policies the stamp of a protected label or taint proves nothing, and kubelets forge it
	excuses
)

func (e excuse) String() string {
	return [...]string{
		"promised", "edit never observed", "removal of a key that was never observed on the object", "taint set back to the listed value unobserved",
		"hidden by the kubelet", "older state written by a slow capture", "more than 8 objects behind", "not selected by the policy",
		"annotation removed by a client", "no guard policies",
	}[e]
}

// none is the value of a key that is not there.
const none = ""

// ownership says who set an item, as far as the API server shows.
type ownership int

const (
	ownedByNobody  ownership = iota // a taint, or a label that no field manager but nodekeep owns
	ownedByClient                   // a client
	ownedByKubelet                  // only components that set it again by themselves, or an annotation claims it for one
)

// item is one key in one state of a Node object.
type item struct {
	value   string
	owner   ownership
	claimed bool   // an annotation claims a protected label for another component
	given   string // nodekeep set this value
	since   int    // in its PATCH on the state before that index; 0: in the CREATE
	brought string // the Node had this value in its CREATE, and the webhook knew a record of the key
	edited  bool   // a client, or another admission policy, decided on the key by this change
	forged  bool   // the kubelet has forged the evidence about this key on this object
}

// past is one state of a Node object as the oracle sees it.
type past struct {
	object int  // 1, 2, ... in the order of registration
	bare   bool // a client removed the annotation by this change
	items  [keyCount]item

	givenInReview map[string]string // what the webhook put into the CREATE
}

// sight says how a state was observed.
type sight int

const (
	notObserved sight = iota
	whileUnselected
	observed
)

// listed is what the annotation says that the object had, and since when.
func (i item) listed() (value string, since int) {
	if i.given != none {
		return i.given, i.since
	}
	return i.brought, 0
}

func (i item) listedAs(other item) bool {
	return i.given == other.given && i.since == other.since && i.brought == other.brought
}

// decision reports whether the item shows a decision of a client or of another admission policy, by all that can be known.
func (i item) decision(taint bool) bool {
	untouched := i.owner == ownedByNobody && (i.value == i.given || taint && i.value == i.brought)
	return i.value != none && i.owner != ownedByKubelet && !untouched
}

// answer is what a record may remember of a key.
type answer struct {
	value  string
	either bool // or nothing, or a value that the annotation listed
	listed string
	any    bool // or whatever else
	why    excuse
	older  *answer  // or what it would be without the last decision
	shown  []string // or one of these
}

func (a answer) allows(value string) bool {
	return a.any || a.older != nil && a.older.allows(value) || slices.Contains(a.shown, value) || value == a.value || a.either && (value == none || value == a.listed && value != none || a.why == unstamped)
}

// question is about one key of one name.
type question struct {
	log     []*past
	seen    func(at int) sight
	order   func(at int) int // in which states were observed, each for the first time
	k       int
	taint   bool
	careful bool // the stamp proves nothing about the key

	// from is the index of the first state that matters; what was decided before is settled.
	from    int
	settled string
}

// last is what a client decided last, observed or not.
func (q question) last() string {
	for i := len(q.log) - 1; i >= q.from; i-- {
		if q.log[i].items[q.k].edited {
			return q.log[i].items[q.k].value
		}
	}
	return q.settled
}

// wanted is what a record can know of what a client decided last, given which states were observed.
func (q question) wanted() answer { return q.wantedUntil(len(q.log)) }

// wantedUntil is the same as if the states from that index on did not exist.
func (q question) wantedUntil(all int) answer {
	why := promised
	for end := all; end > q.from; {
		start := end - 1
		for start > 0 && q.log[start-1].object == q.log[end-1].object {
			start--
		}
		for i := end - 1; i >= max(start, q.from); i-- {
			if !q.log[i].items[q.k].edited {
				continue
			}
			until := i + 1
			for until < end && !q.log[until].items[q.k].edited {
				until++
			}
			d := decided{q, start, i, until, end}
			a, reason := d.answer()
			switch reason {
			case promised:
				if d.claimed() {
					older := q.wantedUntil(i)
					a.older, a.why = &older, hidden
				}
			case unguarded:
				older := q.wantedUntil(i)
				a.older, a.shown, a.why = &older, q.brought(i), unguarded
				if d.late() {
					a.shown = append(a.shown, none)
				}
			case hidden: // and if the record has the hidden value after all, so much the better
				older := q.wantedUntil(i)
				older.shown, older.why = append(older.shown, a.value), max(older.why, why, hidden)
				return older
			default:
				why = max(why, reason)
				continue
			}
			a.why = max(a.why, why)
			return a
		}
		end = start
	}
	return answer{value: q.settled, why: why}
}

// brought are the values that were observed until then and that the stamp says the Node brought itself. Where nothing was recorded of the
// key, a record takes such a value for a client's: a kubelet without guard policies may have written the stamp.
func (q question) brought(until int) (values []string) {
	for j := q.from; j < until; j++ {
		if i := q.log[j].items[q.k]; q.careful && q.seen(j) == observed && i.value != none && i.value == i.brought {
			values = append(values, i.value)
		}
	}
	return values
}

// decided is one decision of a client: the state that it made, and those after it until the next decision about the same key.
type decided struct {
	question
	start, at, until, end int // of the object; of the decision; of the object
}

// answer is what the decision means, or why nobody can know of it.
func (d decided) answer() (a answer, unknown excuse) {
	made := d.log[d.at].items[d.k]
	a.value = made.value
	switch forged := d.forged(); {
	case forged && d.careful:
		return a, unguarded
	case forged:
		return answer{any: true, why: unguarded}, promised
	}
	listed, since := made.listed()
	back := d.taint && made.value != none && made.value == listed
	if back && d.corrected() {
		return answer{any: true, why: setBack}, promised
	}
	visible, only := d.visible()
	if !visible {
		return a, only
	}
	a.either, a.listed, a.why = d.ambiguous(listed)
	if d.careful && d.overtaken() {
		return a, unguarded
	}

	switch {
	case back && d.careful: // nor does it prove that the taint was removed in between
		return a, unguarded
	case back:
		for p := max(since, d.start); p < d.at; p++ {
			if was := d.log[p].items[d.k]; d.seen(p) == observed && was.value != made.value && was.listedAs(made) {
				return a, promised
			}
		}
		return a, setBack
	case made.value == none:
		if proved, only := d.proved(); !proved {
			return a, only
		}
	}
	return a, promised
}

// claimed reports whether an annotation claims the key for another component. While it is not remembered, that hides it.
func (d decided) claimed() bool {
	for j := d.at; j < d.until; j++ {
		if d.log[j].items[d.k].claimed {
			return true
		}
	}
	return false
}

// forged reports whether a kubelet forged what is known of the key before the next decision about it.
func (d decided) forged() bool {
	for j := d.at; j < d.end; j++ {
		if d.log[j].items[d.k].forged {
			return true
		}
	}
	return false
}

// visible reports whether a state was observed that shows the decision.
func (d decided) visible() (visible bool, unless excuse) {
	unless = unobserved
	made := d.log[d.at].items[d.k]
	for j := d.at; j < d.until; j++ {
		shown := d.log[j].items[d.k]
		covered := shown.owner == ownedByKubelet && shown.value != none || made.decision(d.taint) && !shown.decision(d.taint)
		switch saw := d.seen(j); {
		case saw == notObserved:
		case covered:
			unless = max(unless, hidden)
		case saw == whileUnselected && shown.value != none:
			unless = max(unless, unselected)
		default:
			return true, promised
		}
	}
	if made.value == none {
		for j := d.at; j < d.end; j++ { // what nodekeep set since then, it set on a state without the key
			if i := d.log[j].items[d.k]; d.seen(j) != notObserved && i.owner != ownedByKubelet && i.given != none && i.since > d.at && i.since <= d.until {
				return true, promised
			}
		}
	}
	return false, unless
}

// ambiguous reports whether something hides from whoever observes the decision only after a newer state that it is still in force.
func (d decided) ambiguous(listed string) (yes bool, value string, why excuse) {
	made := d.log[d.at].items[d.k]
	for j := d.at + 1; j < d.end; j++ {
		shown := d.log[j].items[d.k]
		listedThen, _ := shown.listed()
		switch {
		case d.seen(j) == notObserved:
		case made.value != none && shown.owner == ownedByKubelet && shown.value != none && (listed == none || listedThen == none):
			return true, none, hidden
		case d.seen(j) == whileUnselected && shown.value != none && (made.value != none || d.taint && listed != none):
			return true, listed, unselected
		}
	}
	for p := d.start; p <= d.at; p++ {
		was := d.log[p].items[d.k]
		l, _ := was.listed()
		switch {
		case d.taint && was.edited && was.value != none && was.value == l && d.since(p).corrected():
			return true, l, setBack
		case d.seen(p) != notObserved && l != none && (was.value == none || was.decision(d.taint)) && d.unstampedAfter(p):
			return true, none, unstamped
		}
	}
	return false, none, promised
}

// late reports whether another value that the object had before the decision may have been recorded only after it. The newer state showed
// what the stamp lists: where the stamp proves nothing, the record cannot say whether it had the key at all.
func (d decided) late() bool {
	for p := d.start; p < d.at; p++ {
		if d.seen(p) == observed && d.log[p].items[d.k].decision(d.taint) {
			return true
		}
	}
	return false
}

// overtaken reports whether a later state was observed before the decision that shows what nodekeep restored from an older record. Where
// the stamp proves nothing, only that observation can prove that the object had the key.
func (d decided) overtaken() bool {
	var known int
	if d.log[d.at].items[d.k].value == none {
		shown := d.firstOf(d.start, d.at, func(j int) bool { return d.seen(j) == observed && d.log[j].items[d.k].decision(d.taint) })
		known = max(shown, d.firstOf(d.at, d.until, func(j int) bool { return d.seen(j) != notObserved }))
	} else {
		known = d.firstOf(d.at, d.until, func(j int) bool { return d.seen(j) == observed })
	}
	for j := d.at + 1; j < len(d.log); j++ {
		i := d.log[j].items[d.k]
		listed, since := i.listed()
		restored := listed != none && i.value == listed && (j >= d.end || since > d.at)
		if restored && d.seen(j) != notObserved && d.order(j) < known {
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
			first = min(first, d.order(j))
		}
	}
	return first
}

// unstampedAfter reports whether a client removed the annotation after a state of the object.
func (d decided) unstampedAfter(at int) bool {
	for j := at + 1; j < d.end; j++ {
		if d.log[j].bare {
			return true
		}
	}
	return false
}

// since is the same decision as if it had been made by an earlier state.
func (d decided) since(at int) decided {
	d.at = at
	return d
}

// corrected reports whether nodekeep took the value for its own afterwards and corrected it.
func (d decided) corrected() bool {
	made := d.log[d.at].items[d.k]
	for j := d.at + 1; j < d.end; j++ {
		if now := d.log[j].items[d.k]; !now.listedAs(made) {
			return true
		}
	}
	return false
}

// proved reports whether what was observed tells a removal from a key that the object never had.
func (d decided) proved() (yes bool, unless excuse) {
	unless = untracedRemoval
	made := d.log[d.at].items[d.k]
	for j := d.at; j < d.until; j++ { // the stamp lists it, and the same since before the removal
		if l, _ := made.listed(); l != none && d.seen(j) != notObserved && d.log[j].items[d.k].listedAs(made) {
			if !d.careful {
				return true, promised
			}
			unless = unguarded
		}
	}
	for p := d.start; p < d.at; p++ {
		was := d.log[p].items[d.k]
		if d.seen(p) == observed && was.decision(d.taint) {
			return true, promised
		}
		if listed, _ := was.listed(); d.careful && d.seen(p) == observed && was.value != none && was.value == listed {
			unless = unguarded
		}
	}
	return false, unless
}
