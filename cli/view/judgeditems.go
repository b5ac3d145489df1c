package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/nodestate"
)

// keptReason returns why an item is kept or not or, if that may be an error, what to do.
func keptReason(i impact.JudgedItem) string {
	subject := "it"
	if len(i.Managers) > 1 {
		subject = "them"
	}
	if !i.Unexpected {
		return i.Reason
	}
	return fmt.Sprintf("kept, though only %s set it: add %s to ignoreManagers, or keep it", strings.Join(i.Managers, " and "), subject)
}

func keptTable(all []impact.JudgedItem) *metav1.Table {
	table := tableOf("Kept", "Key", "Set by", "Nodes", "Example", "Why", "+Such as")
	for _, item := range all {
		addRow(table, nodestate.KindOf(item.Keys[0]), item.Name(), orDash(strings.Join(item.Managers, ",")), item.Nodes, item.Example+" on "+item.First[0], keptReason(item), strings.Join(item.First, ","))
	}
	return table
}

func notKeptTable(all []impact.JudgedItem) *metav1.Table {
	table := tableOf("Not kept", "Key", "Nodes", "Why", "+Such as")
	for _, item := range all {
		addRow(table, nodestate.KindOf(item.Keys[0]), item.Name(), item.Nodes, item.Reason, strings.Join(item.First, ","))
	}
	return table
}

// firstManagers is how many clients are named of those that set what is kept.
const firstManagers = 5

// keptText sums up what is kept, and names who has set what operators may not know of.
func keptText(all []impact.JudgedItem) string {
	if len(all) == 0 {
		return "nothing"
	}
	keys, unexpected, managers := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, item := range all {
		for _, key := range item.Keys {
			if keys[key] = true; item.Unexpected {
				unexpected[key] = true
			}
		}
		for _, manager := range item.Managers {
			managers[manager] = managers[manager] || item.Unexpected
		}
	}
	maps.DeleteFunc(managers, func(_ string, unexpected bool) bool { return !unexpected })
	text := Counted(len(keys), "key")
	if len(unexpected) > 0 {
		names := slices.Sorted(maps.Keys(managers))
		text += fmt.Sprintf("; check %d of them, which only %s", len(unexpected), strings.Join(names[:min(len(names), firstManagers)], ", "))
		if len(names) > firstManagers {
			text += fmt.Sprintf(" and %d more", len(names)-firstManagers)
		}
		text += " set"
	}
	return text
}
