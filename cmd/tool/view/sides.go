package view

import (
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

// Sides are the two that a quarantined record is about.
type Sides struct {
	Node     string
	Old, New Side
	Accepted store.Side // that somebody has accepted already; empty while nobody has
	Gone     *metav1.Time
}

// Side is a machine and what is remembered of it.
type Side struct {
	Machine store.Machine
	Items   map[string]string
}

// SidesOf are those of a record that is quarantined.
func SidesOf(r store.Record) Sides {
	old := *r.Quarantined
	return Sides{
		Node: r.Node, Accepted: r.Accepted, Gone: r.DeletedAt,
		Old: Side{old.Machine, old.Remembered()}, New: Side{r.Machine, r.Remembered()},
	}
}

// Document puts the two beside each other.
func (s Sides) Document(now time.Time) Document {
	var d Document
	d.with("Node", s.Node)
	if s.Gone != nil {
		d.with("Gone", "for "+ago(s.Gone, now))
	}
	d.with("Old machine", orNone(machineText(s.Old.Machine)))
	d.with("New machine", orNone(machineText(s.New.Machine)))
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column("Remembered"), column("Key"), column("Old"), column("New")}}
	all := maps.Clone(s.Old.Items)
	maps.Copy(all, s.New.Items)
	for _, item := range sortedItems(all) {
		table.Rows = append(table.Rows, row(kindOf(item), item, sideValue(s.Old.Items, item), sideValue(s.New.Items, item)))
	}
	d.Tables = append(d.Tables, table)
	return d
}

func sideValue(items map[string]string, item string) string {
	value, is := items[item]
	switch {
	case !is:
		return none
	case value == "":
		return `""`
	default:
		return value
	}
}

// Question says what accepting a side means.
func (s Sides) Question(side store.Side) string {
	if side == store.OldMachine {
		return fmt.Sprintf("Give the machine that has the name %q now what is remembered of the old one?", s.Node)
	}
	return fmt.Sprintf("Forget what is remembered of the old machine of the name %q?", s.Node)
}
