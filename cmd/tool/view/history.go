package view

import (
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

// History is who changed what of what is remembered of a Node, oldest first.
type History struct {
	Node    string         `json:"node"`
	Changes []store.Change `json:"changes"`
}

// HistoryOf is the history in a record.
func HistoryOf(r store.Record) History {
	changes := r.History
	if changes == nil {
		changes = []store.Change{}
	}
	return History{Node: r.Node, Changes: changes}
}

// Document is for people.
func (h History) Document(now time.Time) Document {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Number"), column("Time"), column("By"), column("Item"), column("Key"), column("From"), column("To"), wideColumn("Ago"),
	}}
	for _, change := range h.Changes {
		at := change.Time.UTC().Format(time.RFC3339)
		by := change.Actor
		if by == "" {
			by = "unknown"
		}
		if change.Omitted > 0 {
			table.Rows = append(table.Rows, row(change.Number, at, by, "many", strconv.Itoa(change.Omitted)+" labels and taints, too many to be kept", none, none, ago(&change.Time, now)))
		}
		for _, item := range slices.SortedFunc(maps.Keys(change.Items), compareItems) {
			values := change.Items[item]
			table.Rows = append(table.Rows, row(change.Number, at, by, kindOf(item), item, shown(values.From), shown(values.To), ago(&change.Time, now)))
		}
	}
	return Document{Tables: []*metav1.Table{table}}
}
