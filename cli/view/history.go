package view

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
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
	h := History{Node: r.Node, Changes: history.Changes(r)}
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
		number := noValue
		if change.Number > 0 {
			number = strconv.Itoa(change.Number)
		}
		timeText, by := change.Time.UTC().Format(time.RFC3339), cmp.Or(change.Actor, "unknown")
		if change.Omitted > 0 {
			addRow(table, number, timeText, by, "many", strconv.Itoa(change.Omitted)+" labels and taints, too many to be kept", noValue, noValue, age(change.Time.Time, now))
		}
		for _, item := range slices.SortedFunc(maps.Keys(change.Items), nodestate.CompareItems) {
			values := change.Items[item]
			addRow(table, number, timeText, by, nodestate.KindOf(item), item, nodestate.FormatValue(values.From), nodestate.FormatValue(values.To), age(change.Time.Time, now))
		}
	}
	if start == len(h.Changes) {
		h.addStart(table)
	}
	return Document{Tables: []*metav1.Table{table}}
}

// startsAt returns the index of the change before which the start stands; all those after it are known.
func (h History) startsAt() int {
	if h.Start == nil {
		return -1
	}
	index := 0
	for i, change := range h.Changes {
		if change.Number > 0 && change.Number <= h.Start.Number {
			index = i + 1
		}
	}
	return index
}

// addStart adds a row for each item of the start.
func (h History) addStart(table *metav1.Table) {
	by := "first record"
	if h.Start.Number > 0 {
		by = "earlier changes"
	}
	for _, item := range nodestate.SortedItems(h.Start.Items) {
		value := h.Start.Items[item]
		addRow(table, strconv.Itoa(h.Start.Number), noValue, by, nodestate.KindOf(item), item, noValue, nodestate.FormatValue(&value), noValue)
	}
}

// Rollback is a plan to return a Node to a moment of its history.
type Rollback struct{ nodestate.Rollback }

// Document returns the answer as text.
func (r Rollback) Document(time.Time) Document {
	table := tableOf("Action", "Item", "Key", "From", "To", "Why")
	for _, step := range r.Steps {
		addRow(table, string(step.Action), step.Kind, step.Item, nodestate.FormatValue(step.From), nodestate.FormatValue(step.To), orDash(step.Reason))
	}
	return Document{Tables: []*metav1.Table{table}}
}
