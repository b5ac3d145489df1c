package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/record"
)

// Limits of a history. It holds the newest entries that fit. Entries of rules have their own bound. So a fact that changes often does not
// drop the changes of clients.
const (
	Max             = 20 // of clients
	MaxOfRules      = 10
	maxBytes        = 64 << 10 // of JSON, at a high estimate; of clients
	maxBytesOfRules = 16 << 10
)

// ruleActor is how the actor of an entry begins that a rule made; the rule's name follows.
const ruleActor = "rule:"

// RuleActor returns the actor of what a rule did.
func RuleActor(rule string) string { return ruleActor + rule }

// endActor is how the actor of an entry begins that marked the end of a Node object; the manager follows.
const endActor = "end:"

// EndActor returns the actor of what a manager set while its Node was being taken away.
func EndActor(manager string) string { return endActor + manager }

// Change is an entry of a record's history: the items of a Node that one write of the record changed. All of these changes have one cause.
type Change struct {
	// Number is 1 for the first change of a record and grows by one with each. The number of a dropped entry is not used again. A change by
	// a rule has no number, and neither has a mark of the end. It is not in the record, so a rollback cannot undo it.
	Number int
	// Time is when the change was made, in whole seconds, as the API server shows it. Where it does not, it is when the
	// change was seen.
	Time metav1.Time
	// Actor is the manager that made the change by metadata.managedFields: a name that its client chose. "nodekeep" is nodekeep itself. If
	// the actor is not known, as for a removed label, it is empty.
	Actor string
	// Items are the labels, taints and annotations that changed, named like those of a record.
	Items map[string]Values
	// Omitted is how many items changed where those are too many to be kept; Items is empty then.
	Omitted int
}

// Values are what an item was and what it became; nil where it was not there.
type Values struct {
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
}

// Cause is who made a change, and when. An empty actor is one that is not known.
type Cause struct {
	Actor string
	Time  metav1.Time
}

// Changes returns the changes of a record, oldest first: the newest changes, a bounded number. Nothing is decided by it.
func Changes(r record.Record) []Change {
	changes, _ := historyOf(r.History)
	return changes
}

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

// Append returns the record with the history of the previous record. The differences of the two records are its last entries. Changes of one
// cause are one entry. Changes of several causes are sorted by time, the earliest first.
func Append(prev, r record.Record, cause func(item string, values Values) Cause) record.Record {
	r.History, r.HistoryOmitted = prev.History, prev.HistoryOmitted
	if r.HistoryOmitted {
		return r
	}
	changes := map[Cause]map[string]Values{}
	for item, values := range differences(prev, r) {
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
	history := Changes(prev)
	for _, by := range slices.SortedFunc(maps.Keys(changes), func(a, b Cause) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Actor, b.Actor))
	}) {
		history = append(history, Change{Number: lastNumber(history) + 1, Time: by.Time, Actor: by.Actor, Items: changes[by]})
	}
	return withHistory(r, bounded(history))
}

// AppendRules returns the record with the changes by rules since the previous record at the end of its history. The items of the Node after
// these changes are itemsAfter.
func AppendRules(prev, r record.Record, itemsAfter map[string]string, now time.Time) record.Record {
	if r.HistoryOmitted {
		return r
	}
	changes := map[string]map[string]Values{} // by rule
	for _, ruleLabels := range []map[string]record.RuleLabel{prev.RuleLabels, r.RuleLabels} {
		for key := range ruleLabels {
			old, ok := prev.RuleLabels[key]
			current, found := r.RuleLabels[key]
			if ok && found && old.Value == current.Value && old.Absent == current.Absent {
				continue
			}
			values := Values{From: valueOf(old, ok), To: valueOf(current, found)}
			if !found {
				values.To = shownBy(itemsAfter, key)
				current = old
			}
			if ptr.Equal(values.From, values.To) {
				continue
			}
			if changes[current.Rule] == nil {
				changes[current.Rule] = map[string]Values{}
			}
			changes[current.Rule][key] = values
		}
	}
	if len(changes) == 0 {
		return r
	}
	history := Changes(r)
	for _, rule := range slices.Sorted(maps.Keys(changes)) {
		history = append(history, Change{Time: metav1.NewTime(now.UTC()).Rfc3339Copy(), Actor: RuleActor(rule), Items: changes[rule]})
	}
	return withHistory(r, bounded(history))
}

// AppendMarks returns the record with its new marks at the end of its history, by the manager that made them.
func AppendMarks(prev, r record.Record, now time.Time) record.Record {
	if r.HistoryOmitted {
		return r
	}
	old := prev.MarksOf(r.Newest())
	changes := map[string]map[string]Values{} // by manager
	for item, mark := range r.Marks {
		if former, marked := old[item]; marked && former.Value == mark.Value {
			continue
		}
		if changes[mark.By] == nil {
			changes[mark.By] = map[string]Values{}
		}
		prev, ok := remembered(r, item)
		changes[mark.By][item] = Values{From: shown(item, prev, ok), To: &mark.Value}
	}
	if len(changes) == 0 {
		return r
	}
	history := Changes(r)
	for _, by := range slices.Sorted(maps.Keys(changes)) {
		history = append(history, Change{Time: metav1.NewTime(now.UTC()).Rfc3339Copy(), Actor: EndActor(by), Items: changes[by]})
	}
	return withHistory(r, bounded(history))
}

func valueOf(ruleLabel record.RuleLabel, present bool) *string {
	if !present || ruleLabel.Absent {
		return nil
	}
	return &ruleLabel.Value
}

// differences returns the items in which two records differ. An item that no Node can have shown counts as absent: a client wrote it into the
// record. Two records rarely differ, and to validate an item takes long.
func differences(prev, next record.Record) map[string]Values {
	different := map[string]Values{}
	for _, entries := range [][]record.Entry{prev.Entries, next.Entries} {
		for _, e := range entries {
			old, ok := remembered(prev, e.Key)
			value, found := remembered(next, e.Key)
			if ok == found && old == value {
				continue
			}
			values := Values{From: shown(e.Key, old, ok), To: shown(e.Key, value, found)}
			if !ptr.Equal(values.From, values.To) && record.Valid(e.Key, "") {
				different[e.Key] = values
			}
		}
	}
	return different
}

func remembered(r record.Record, key string) (value string, ok bool) {
	e, known := r.Entry(key)
	return e.Value, known && !e.Removed
}

func shownBy(items map[string]string, item string) *string {
	value, ok := items[item]
	return shown(item, value, ok)
}

// shown returns the value of an item, unless it is not there or no Node can have it.
func shown(item, value string, present bool) *string {
	if !present || !record.Valid(item, value) {
		return nil
	}
	return &value
}

// bounded drops the oldest entries of a history that is too long or too large. Of the newest one of a client at least the number stays, so that it is
// not given again.
func bounded(history []Change) (kept []Change) {
	clients, rules, newest := room{Max, maxBytes}, room{MaxOfRules, maxBytesOfRules}, true
	for _, change := range slices.Backward(history) {
		switch {
		case change.unnumbered():
			if rules.takes(change) {
				kept = append(kept, change)
			}
			continue
		case clients.takes(change):
			kept = append(kept, change)
		case newest:
			kept = append(kept, change.omitted())
		}
		newest = false
	}
	slices.Reverse(kept)
	return kept
}

// room is what is left for entries.
type room struct{ entries, bytes int }

// takes reports whether there is room for an entry. Once there is none, there is none for older ones.
func (r *room) takes(change Change) bool {
	r.entries--
	r.bytes -= change.size()
	return r.entries >= 0 && r.bytes >= 0
}

// unnumbered reports whether a rule changed the Node: the record is as before.
func (c Change) unnumbered() bool { return c.Number == 0 }

// ofClients returns the entries of a history that can be rolled back to.
func ofClients(history []Change) []Change {
	return slices.DeleteFunc(slices.Clone(history), Change.unnumbered)
}

// size is about as much as the entry takes as JSON.
func (c Change) size() int {
	const entry, perItem = 150, 120 // braces, names and indentation
	bytes := entry + len(c.Actor)
	for item, values := range c.Items {
		bytes += perItem + len(item)
		for _, value := range []*string{values.From, values.To} {
			switch {
			case value == nil:
			case record.IsAnnotation(item):
				bytes += record.AnnotationSize("", *value)
			default:
				bytes += len(*value)
			}
		}
	}
	return bytes
}

// omitted returns the entry without its items.
func (c Change) omitted() Change {
	c.Items, c.Omitted = nil, c.Omitted+len(c.Items)
	return c
}

// Shortened returns the record with less of its history. It drops the oldest entry of a rule or, if there is none, the oldest entry. Of the only
// entry left, it drops the items. That entry stays: it shows that the record has changed, and its number is not given again. If nothing can
// be dropped, ok is false.
func Shortened(r record.Record) (shorter record.Record, ok bool) {
	history := Changes(r)
	switch ofRule := slices.IndexFunc(history, Change.unnumbered); {
	case len(history) == 0:
		return r, false
	case ofRule >= 0:
		return withHistory(r, slices.Delete(history, ofRule, ofRule+1)), true
	case len(history) > 1:
		return withHistory(r, history[1:]), true
	case history[0].Omitted == 0:
		return withHistory(r, []Change{history[0].omitted()}), true
	default:
		return r, false
	}
}

func lastNumber(history []Change) int {
	for _, change := range slices.Backward(history) {
		if !change.unnumbered() {
			return change.Number
		}
	}
	return 0
}

// RollBack returns the items that restore labels and taints to their state after the entry of that number. The items are those that changed
// since, each with its value at that time; nil means that it was absent. The number before the first entry is the state before that change.
// The error names the valid numbers.
func RollBack(r record.Record, to int) (items map[string]*string, err error) {
	changes := ofClients(Changes(r))
	first, last, err := rollBackRange(r, changes)
	if err != nil {
		return nil, fmt.Errorf("roll back node %q to entry %d of its history: %w", r.Node, to, err)
	}
	if to < first || to > last {
		return nil, fmt.Errorf("roll back node %q to entry %d of its history: it can be rolled back to entries %d to %d (%d is before its first change that is kept)", r.Node, to, first, last, first)
	}
	items = map[string]*string{}
	for _, change := range slices.Backward(changes) {
		if change.Number <= to {
			break
		}
		for item, values := range change.Items {
			items[item] = values.From
		}
	}
	return items, nil
}

// Start returns what the record held before all changes that are known without a gap. It is what the change of that number left. Number 0 is the first
// record. It is not known if the end of the history cannot be read: what has changed then is not known.
func Start(r record.Record) (number int, items map[string]string, known bool) {
	changes, endRead := historyOf(r.History)
	if r.HistoryOmitted || !endRead {
		return 0, nil, false
	}
	made := ofClients(changes)
	if len(made) > 0 {
		number, _, _ = rollBackRange(r, made)
	}
	items = r.Items()
	for _, change := range slices.Backward(made) {
		if change.Number <= number {
			break
		}
		for item, values := range change.Items {
			if delete(items, item); values.From != nil {
				items[item] = *values.From
			}
		}
	}
	return number, items, true
}

// rollBackRange returns the numbers that [RollBack] takes: those after which every change is known.
func rollBackRange(r record.Record, changes []Change) (first, last int, err error) {
	switch {
	case r.HistoryOmitted:
		return 0, 0, errors.New("the history was not read with the record; read it live")
	case len(changes) == 0:
		return 0, 0, errors.New("it has none: nothing has changed since the record was first written")
	}
	last = lastNumber(changes)
	first = last
	for _, change := range slices.Backward(changes) {
		if change.Number != first || change.Omitted > 0 {
			break
		}
		first--
	}
	return first, last, nil
}
