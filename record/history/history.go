package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
)

// What a history holds at most: the newest entries that fit.
const (
	Max      = 20
	maxBytes = 64 << 10 // of JSON, at a high estimate
)

// Change is an entry of a record's history: what changed of what is remembered of a Node by one write of the record, and
// is known to be of one hand.
type Change struct {
	// Number is 1 for the first change of a record and grows by one with each. That of an entry which was dropped is
	// not given again.
	Number int
	// Time is when the change was made, in whole seconds, as the API server tells it. Where it does not, it is when the
	// change was seen.
	Time metav1.Time
	// Actor is the manager that made the change by metadata.managedFields: a name that its client chose. "nodekeep" is
	// nodekeep itself. Empty where nobody knows, as of a label that was taken off.
	Actor string
	// Items are the labels and taints that changed, named like those of a record.
	Items map[string]Values
	// Omitted is how many items changed where those are too many to be kept; Items is empty then.
	Omitted int
}

// Values are what an item was and what it became; nil where it was not there.
type Values struct{ From, To *string }

// Cause is who made a change, and when. An empty actor is one that is not known.
type Cause struct {
	Actor string
	Time  metav1.Time
}

// Of is what changed of what is remembered of a Node, oldest first: the newest changes, a bounded number. Nothing is decided by it.
func Of(r record.Record) []Change { return historyOf(r.History) }

func withHistory(r record.Record, history []Change) record.Record {
	r.History = nil
	if len(history) > 0 {
		data, err := json.Marshal(history)
		if err != nil {
			panic("marshal a history of strings: " + err.Error()) // cannot happen: texts, numbers and times that were read from JSON
		}
		r.History = data
	}
	return r
}

// Following is the record with the history of the one that it replaces and, at its end, what is remembered differently.
// Changes of one cause are one entry; of several, the one that came first in time is the first.
func Following(prev, r record.Record, cause func(item string, values Values) Cause) record.Record {
	r.History, r.HistoryOmitted = prev.History, prev.HistoryOmitted
	if r.HistoryOmitted {
		return r
	}
	changes := map[Cause]map[string]Values{}
	for item, values := range differences(prev.Items(), r.Items()) {
		by := cause(item, values)
		if !validActor(by.Actor) {
			by.Actor = ""
		}
		by.Time = metav1.NewTime(by.Time.UTC()).Rfc3339Copy()
		if changes[by] == nil {
			changes[by] = map[string]Values{}
		}
		changes[by][item] = values
	}
	if len(changes) == 0 {
		return r
	}
	history := Of(prev)
	for _, by := range slices.SortedFunc(maps.Keys(changes), func(a, b Cause) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Actor, b.Actor))
	}) {
		history = append(history, Change{Number: lastNumber(history) + 1, Time: by.Time, Actor: by.Actor, Items: changes[by]})
	}
	return withHistory(r, bounded(history))
}

// differences are the items in which two states differ. What no Node can have shown, because somebody wrote it into the
// record, counts as not there.
func differences(before, after map[string]string) map[string]Values {
	different := map[string]Values{}
	for _, items := range []map[string]string{before, after} {
		for item := range items {
			values := Values{From: shownBy(before, item), To: shownBy(after, item)}
			if !sameValue(values.From, values.To) && record.Valid(item, "") {
				different[item] = values
			}
		}
	}
	return different
}

func sameValue(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func shownBy(items map[string]string, item string) *string {
	value, is := items[item]
	if !is || !record.Valid(item, value) {
		return nil
	}
	return &value
}

// bounded drops the oldest entries of a history that is too long or too large. Of the newest at least the number stays.
func bounded(history []Change) []Change {
	bytes, first := 0, len(history)
	for first > 0 && len(history)-first < Max {
		if bytes += history[first-1].size(); bytes > maxBytes {
			break
		}
		first--
	}
	if first == len(history) && first > 0 {
		return []Change{history[first-1].omitted()}
	}
	return history[first:]
}

// size is about as much as the entry takes as JSON.
func (c Change) size() int {
	const entry, each = 150, 120 // braces, names and indentation
	bytes := entry + len(c.Actor)
	for item, values := range c.Items {
		bytes += each + len(item)
		for _, value := range []*string{values.From, values.To} {
			if value != nil {
				bytes += len(*value)
			}
		}
	}
	return bytes
}

// omitted is the entry without its items.
func (c Change) omitted() Change {
	c.Items, c.Omitted = nil, c.Omitted+len(c.Items)
	return c
}

// Shortened is the record with less of its history: its oldest entry gone, or the items of the only one left out, or no history.
// ok is false where it has none.
func Shortened(r record.Record) (shorter record.Record, ok bool) {
	switch history := Of(r); {
	case len(history) == 0:
		return r, false
	case len(history) > 1:
		return withHistory(r, history[1:]), true
	case history[0].Omitted == 0:
		return withHistory(r, []Change{history[0].omitted()}), true
	default:
		return withHistory(r, nil), true
	}
}

func lastNumber(history []Change) int {
	if len(history) == 0 {
		return 0
	}
	return history[len(history)-1].Number
}

// RollBack is what brings labels and taints back to what they were after the entry of that number: the values that all items
// had then which changed since, nil where an item was not there. An item that is not among them has not changed. To the
// number before the first entry is to before that change. The error says which numbers there are.
func RollBack(r record.Record, to int) (items map[string]*string, err error) {
	told := Of(r)
	first, last, err := rollBackRange(r, told)
	if err != nil {
		return nil, fmt.Errorf("roll back node %q to entry %d of its history: %w", r.Node, to, err)
	}
	if to < first || to > last {
		return nil, fmt.Errorf("roll back node %q to entry %d of its history: it can be rolled back to entries %d to %d (%d is before its first change that is kept)", r.Node, to, first, last, first)
	}
	items = map[string]*string{}
	for _, change := range slices.Backward(told) {
		if change.Number <= to {
			break
		}
		for item, values := range change.Items {
			items[item] = values.From
		}
	}
	return items, nil
}

// rollBackRange are the numbers that [RollBack] takes: those after which every change is known.
func rollBackRange(r record.Record, told []Change) (first, last int, err error) {
	switch {
	case r.HistoryOmitted:
		return 0, 0, errors.New("the history was not read with the record; read it live")
	case len(told) == 0:
		return 0, 0, errors.New("it has none: nothing has changed since the record was first written")
	}
	last = lastNumber(told)
	first = last
	for _, change := range slices.Backward(told) {
		if change.Number != first || change.Omitted > 0 {
			break
		}
		first--
	}
	return first, last, nil
}
