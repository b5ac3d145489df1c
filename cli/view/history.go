package view

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// History is who changed what of what is remembered of a Node, oldest first.
type History struct {
	Node    string           `json:"node"`
	Changes []history.Change `json:"changes"`
}

// HistoryOf is the history in a record.
func HistoryOf(r record.Record) History {
	h := History{Node: r.Node, Changes: history.Of(r)}
	if h.Changes == nil {
		h.Changes = []history.Change{}
	}
	return h
}

// Document is for people.
func (h History) Document(now time.Time) Document {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Number"), column("Time"), column("By"), column("Item"), column("Key"), column("From"), column("To"), wideColumn("Ago"),
	}}
	for _, change := range h.Changes {
		at, by := change.Time.UTC().Format(time.RFC3339), cmp.Or(change.Actor, "unknown")
		if change.Omitted > 0 {
			table.Rows = append(table.Rows, row(change.Number, at, by, "many", strconv.Itoa(change.Omitted)+" labels and taints, too many to be kept", none, none, ago(change.Time.Time, now)))
		}
		for _, item := range slices.SortedFunc(maps.Keys(change.Items), compareItems) {
			values := change.Items[item]
			table.Rows = append(table.Rows, row(change.Number, at, by, kindOf(item), item, shown(values.From), shown(values.To), ago(change.Time.Time, now)))
		}
	}
	return Document{Tables: []*metav1.Table{table}}
}
