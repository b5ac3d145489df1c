package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/record"
)

// Answer is what a command answers: for programs the value itself, by its JSON tags, and for readers a document.
type Answer interface {
	Document(now time.Time) Document
}

// Document is an answer as text.
type Document struct {
	Facts  []Fact
	Tables []*metav1.Table // those without rows are left out
	Titles []string        // that stand above the tables, by their order; empty: a table whose columns say what it is
}

// Fact is one line of a document.
type Fact struct{ Name, Value string }

// Empty reports whether there is nothing to show.
func (d Document) Empty() bool {
	return len(d.Facts) == 0 && !slices.ContainsFunc(d.Tables, func(table *metav1.Table) bool { return len(table.Rows) > 0 })
}

// First returns the document with so many rows of each table at most, and how many rows it then lacks.
func (d Document) First(rows int) (first Document, omitted int) {
	first = Document{Facts: d.Facts, Titles: d.Titles}
	for _, table := range d.Tables {
		short := *table
		short.Rows = table.Rows[:min(rows, len(table.Rows))]
		first.Tables, omitted = append(first.Tables, &short), omitted+len(table.Rows)-len(short.Rows)
	}
	return first, omitted
}

// addFact adds a fact, unless it has nothing to say.
func (d *Document) addFact(name, value string) {
	if value != "" {
		d.Facts = append(d.Facts, Fact{name, value})
	}
}

// tableOf returns a table with these columns. The wide format alone shows those that begin with "+".
func tableOf(columns ...string) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range columns {
		column := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if wide, ok := strings.CutPrefix(name, "+"); ok {
			column.Name, column.Priority = wide, 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, column)
	}
	return table
}

// addRow adds a row. A cell that has nothing to say is none.
func addRow(table *metav1.Table, cells ...any) {
	for i, cell := range cells {
		if cell == "" {
			cells[i] = noValue
		}
	}
	table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
}

// itemsTable has a row for each item, with its value in each of the columns.
func itemsTable(title string, columns []string, values ...map[string]string) *metav1.Table {
	table := tableOf(append([]string{title, "Key"}, columns...)...)
	for _, item := range nodestate.SortedItems(values...) {
		cells := []any{nodestate.KindOf(item), item}
		for _, column := range values {
			cells = append(cells, nodestate.FormatValue(nodestate.ValueIn(column, item)))
		}
		addRow(table, cells...)
	}
	return table
}

// noValue stands in cells that have nothing to say.
const noValue = "-"

// age returns how long something has been so, as kubectl writes ages.
func age(start time.Time, now time.Time) string {
	if start.IsZero() {
		return noValue
	}
	return duration.HumanDuration(now.Sub(start))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func orDash(text string) string { return cmp.Or(text, noValue) }

// Counted returns a number of things in words.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listOf writes keys as text.
func listOf[V any](items map[string]V) string {
	return strings.Join(nodestate.SortedItems(items), ", ")
}

func taintItems(taints []corev1.Taint) map[string]string { return record.Join(nil, taints) }
