package view

import (
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Sides are the two that a quarantined record is about.
type Sides struct {
	Node     string
	Old, New Side
	Accepted store.Side // that somebody has accepted already; empty while nobody has
	Gone     time.Time
}

// Side is a machine and what is remembered of it.
type Side struct {
	Machine record.Machine
	Items   map[string]string
}

// SidesOf are those of a record that is quarantined.
func SidesOf(entry store.Entry) Sides {
	r, old := entry.Record, *entry.Record.Quarantined
	return Sides{
		Node: r.Node, Accepted: entry.Accepted, Gone: r.DeletedAt,
		Old: Side{old.Machine, old.Items()}, New: Side{r.Machine, r.Items()},
	}
}

// Document puts the two beside each other.
func (s Sides) Document(now time.Time) Document {
	var d Document
	d.with("Node", s.Node)
	if !s.Gone.IsZero() {
		d.with("Gone", "for "+ago(s.Gone, now))
	}
	d.with("Old machine", orNone(machineText(s.Old.Machine)))
	d.with("New machine", orNone(machineText(s.New.Machine)))
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column("Remembered"), column("Key"), column("Old"), column("New")}}
	all := maps.Clone(s.Old.Items)
	maps.Copy(all, s.New.Items)
	for _, item := range sortedItems(all) {
		table.Rows = append(table.Rows, row(kindOf(item), item, shown(valueIn(s.Old.Items, item)), shown(valueIn(s.New.Items, item))))
	}
	d.Tables = append(d.Tables, table)
	return d
}

// Question says what accepting a side means.
func (s Sides) Question(side store.Side) string {
	if side == store.OldMachine {
		return fmt.Sprintf("Give the machine that has the name %q now what is remembered of the old one?", s.Node)
	}
	return fmt.Sprintf("Forget what is remembered of the old machine of the name %q?", s.Node)
}
