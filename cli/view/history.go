package view

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// History are the changes of a Node's record and who made them, oldest first.
type History struct {
	Node    string           `json:"node"`
	Start   *HistoryStart    `json:"start,omitempty"` // nil: not known
	Changes []history.Change `json:"changes"`
}

// HistoryStart is what the record held when every later change is known.
type HistoryStart struct {
	Number int               `json:"number"` // to roll back to it
	Items  map[string]string `json:"items"`
}

// HistoryOf returns the history in a record.
func HistoryOf(r record.Record) History {
	h := History{Node: r.Node, Changes: history.Of(r)}
	if h.Changes == nil {
		h.Changes = []history.Change{}
	}
	if number, items, known := history.Start(r); known {
		h.Start = &HistoryStart{number, items}
	}
	return h
}

// Document returns the answer as text.
func (h History) Document(now time.Time) Document {
	table := tableOf("Number", "Time", "By", "Item", "Key", "From", "To", "+Ago")
	start := h.startsAt()
	for i, change := range h.Changes {
		if i == start {
			h.addStart(table)
		}
		number := none
		if change.Number > 0 {
			number = strconv.Itoa(change.Number)
		}
		at, by := change.Time.UTC().Format(time.RFC3339), cmp.Or(change.Actor, "unknown")
		if change.Omitted > 0 {
			add(table, number, at, by, "many", strconv.Itoa(change.Omitted)+" labels and taints, too many to be kept", none, none, ago(change.Time.Time, now))
		}
		for _, item := range slices.SortedFunc(maps.Keys(change.Items), compareItems) {
			values := change.Items[item]
			add(table, number, at, by, kindOf(item), item, shown(values.From), shown(values.To), ago(change.Time.Time, now))
		}
	}
	if start == len(h.Changes) {
		h.addStart(table)
	}
	return Document{Tables: []*metav1.Table{table}}
}

// startsAt is before which of the changes the start stands; all those after it are known.
func (h History) startsAt() int {
	if h.Start == nil {
		return -1
	}
	before := 0
	for i, change := range h.Changes {
		if change.Number > 0 && change.Number <= h.Start.Number {
			before = i + 1
		}
	}
	return before
}

// addStart adds a row for each item of the start.
func (h History) addStart(table *metav1.Table) {
	by := "first record"
	if h.Start.Number > 0 {
		by = "earlier changes"
	}
	for _, item := range sortedItems(h.Start.Items) {
		value := h.Start.Items[item]
		add(table, strconv.Itoa(h.Start.Number), none, by, kindOf(item), item, none, shown(&value), none)
	}
}

// Rollback is what returns a Node's labels and taints to a moment of its history. Only what has been changed since is touched.
type Rollback struct {
	Node  string         `json:"node"`
	To    int            `json:"to"`
	Steps []RollbackStep `json:"steps"`
}

// RollbackStep is what becomes of one label or taint.
type RollbackStep struct {
	Kind   string       `json:"kind"`
	Item   string       `json:"item"`
	Action RollbackVerb `json:"action"`
	From   *string      `json:"from,omitempty"` // the value that the Node shows
	To     *string      `json:"to,omitempty"`
	Why    string       `json:"why,omitempty"` // it is left alone
}

// RollbackVerb is what is done with a label or taint.
type RollbackVerb string

// The verbs.
const (
	Set       RollbackVerb = "set"
	Replace   RollbackVerb = "change"
	Remove    RollbackVerb = "remove"
	LeftAlone RollbackVerb = "left alone"
)

// RollbackTo plans it for a Node that is there and has a record.
func RollbackTo(s NodeState, number int, in plan.Circumstances) (Rollback, error) {
	before, err := history.RollBack(*s.Record, number)
	if err != nil {
		return Rollback{}, err
	}
	rollback := Rollback{Node: s.Name, To: number, Steps: []RollbackStep{}}
	node := s.Judge(in).metadata
	for _, item := range slices.SortedFunc(maps.Keys(before), compareItems) {
		step := RollbackStep{Kind: kindOf(item), Item: item, From: valueIn(node.Items, item), To: before[item]}
		switch {
		case ptr.Equal(step.From, step.To):
			continue
		case step.To == nil:
			step.Action = Remove
		case step.From == nil:
			step.Action = Set
		default:
			step.Action = Replace
		}
		if verdict := in.Policy.Judge(node, item); !verdict.Keeps {
			step.Action, step.Why = LeftAlone, verdict.Why()
		}
		rollback.Steps = append(rollback.Steps, step)
	}
	return rollback, nil
}

// Change returns the change of the Node. It is the operator's, so the stamp does not list it.
func (r Rollback) Change() plan.Plan {
	change := plan.Plan{ByClient: true}
	for _, step := range r.Steps {
		switch step.Action {
		case Set, Replace:
			change.Edits = append(change.Edits, plan.Set(plan.Correction, map[string]string{step.Item: *step.To})...)
		case Remove:
			change.Edits = append(change.Edits, plan.Remove(plan.Correction, step.Item)...)
		}
	}
	return change
}

// Changes returns how many labels and taints are changed, and how many are not although they should be.
func (r Rollback) Changes() (changed, leftAlone int) {
	for _, step := range r.Steps {
		if step.Action == LeftAlone {
			leftAlone++
		} else {
			changed++
		}
	}
	return changed, leftAlone
}

// Document returns the answer as text.
func (r Rollback) Document(time.Time) Document {
	table := tableOf("Action", "Item", "Key", "From", "To", "Why")
	for _, step := range r.Steps {
		add(table, string(step.Action), step.Kind, step.Item, shown(step.From), shown(step.To), orNone(step.Why))
	}
	return Document{Tables: []*metav1.Table{table}}
}
