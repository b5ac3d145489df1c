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

// note is why an item is kept or not or, if that may be an error, what to do.
func note(i impact.JudgedItem) string {
	it := "it"
	if len(i.Managers) > 1 {
		it = "them"
	}
	if !i.Unexpected {
		return i.Why
	}
	return fmt.Sprintf("kept, though only %s set it: add %s to ignoreManagers, or keep it", strings.Join(i.Managers, " and "), it)
}

func keptTable(all []impact.JudgedItem) *metav1.Table {
	table := tableOf("Kept", "Key", "Set by", "Nodes", "Example", "Why", "+Such as")
	for _, of := range all {
		add(table, nodestate.KindOf(of.Keys[0]), of.Name(), orNone(strings.Join(of.Managers, ",")), of.Nodes, of.Example+" on "+of.First[0], note(of), strings.Join(of.First, ","))
	}
	return table
}

func notKeptTable(all []impact.JudgedItem) *metav1.Table {
	table := tableOf("Not kept", "Key", "Nodes", "Why", "+Such as")
	for _, of := range all {
		add(table, nodestate.KindOf(of.Keys[0]), of.Name(), of.Nodes, of.Why, strings.Join(of.First, ","))
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
	for _, of := range all {
		for _, key := range of.Keys {
			if keys[key] = true; of.Unexpected {
				unexpected[key] = true
			}
		}
		for _, manager := range of.Managers {
			managers[manager] = managers[manager] || of.Unexpected
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
