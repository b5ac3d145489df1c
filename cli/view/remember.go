package view

import (
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/record"
)

// Remembered says in one line what the next record changes of a Node's; nil says that it stays as it is.
func Remembered(s NodeState, next *record.Record) string {
	var before, after record.Record
	if s.Record != nil {
		before, after = *s.Record, *s.Record
	}
	if next != nil {
		after = *next
	}
	was, is := before.Items(), after.Items()
	labels, taints := record.Split(is)
	holds := Counted(len(labels), "label") + ", " + Counted(len(taints), "taint")
	if before.Quarantined == nil && after.Quarantined != nil {
		return fmt.Sprintf("node/%s remembered: %s; another machine has taken the name, and what was remembered before is set aside: nodekeep accept %s --machine old|new", s.Name, holds, s.Name)
	}
	var added, set, removed []string
	for _, item := range sortedItems(is) {
		switch value, had := was[item]; {
		case !had:
			added = append(added, item)
		case value != is[item]:
			set = append(set, item)
		}
	}
	for _, item := range sortedItems(was) {
		if _, has := is[item]; !has {
			removed = append(removed, item)
		}
	}
	var changes []string
	for i, items := range [][]string{added, set, removed} {
		if len(items) > 0 {
			changes = append(changes, []string{"new: ", "changed: ", "removed: "}[i]+strings.Join(items, ", "))
		}
	}
	if len(changes) == 0 {
		return fmt.Sprintf("node/%s unchanged: %s", s.Name, holds)
	}
	return fmt.Sprintf("node/%s remembered: %s (%s)", s.Name, holds, strings.Join(changes, "; "))
}

// Counted is a number of things in words.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
