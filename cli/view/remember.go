package view

import (
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/record"
)

// Remembered is what a look at a Node has changed of what is remembered.
type Remembered struct {
	node                string
	labels, taints      int // that are remembered now
	added, set, removed []string
	isolated            bool
}

// RememberedOf compares a record with the next one; nil says that it stays as it is.
func RememberedOf(s NodeState, next *record.Record) Remembered {
	var before, after record.Record
	if s.Record != nil {
		before, after = *s.Record, *s.Record
	}
	if next != nil {
		after = *next
	}
	r := Remembered{node: s.Name, isolated: before.Quarantined == nil && after.Quarantined != nil}
	was, is := before.Items(), after.Items()
	labels, taints := record.Split(is)
	r.labels, r.taints = len(labels), len(taints)
	for _, item := range sortedItems(is) {
		switch value, had := was[item]; {
		case !had:
			r.added = append(r.added, item)
		case value != is[item]:
			r.set = append(r.set, item)
		}
	}
	for _, item := range sortedItems(was) {
		if _, has := is[item]; !has {
			r.removed = append(r.removed, item)
		}
	}
	return r
}

// String tells it in one line.
func (r Remembered) String() string {
	holds := fmt.Sprintf("%s, %s", Counted(r.labels, "label"), Counted(r.taints, "taint"))
	if r.isolated {
		return fmt.Sprintf("node/%s remembered: %s; another machine has taken the name, and what was remembered before is set aside: nodekeep accept %s --machine old|new", r.node, holds, r.node)
	}
	var changes []string
	for _, change := range []struct {
		what  string
		items []string
	}{{"new", r.added}, {"changed", r.set}, {"removed", r.removed}} {
		if len(change.items) > 0 {
			changes = append(changes, change.what+": "+strings.Join(change.items, ", "))
		}
	}
	if len(changes) == 0 {
		return fmt.Sprintf("node/%s unchanged: %s", r.node, holds)
	}
	return fmt.Sprintf("node/%s remembered: %s (%s)", r.node, holds, strings.Join(changes, "; "))
}

// Counted is a number of things in words.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
