package view

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
)

// Difference is how the record of a Node differs from the live Node.
type Difference struct {
	Node  string          `json:"node"`
	Items []DifferentItem `json:"items"` // that capture has still to record, or to restore
	// NotShown is recorded and not on the Node for a reason; no difference to be corrected.
	NotShown []DifferentItem `json:"notShown"`
}

// DifferentItem is one label or taint.
type DifferentItem struct {
	Kind   string  `json:"kind"`
	Item   string  `json:"item"`
	Record *string `json:"record,omitempty"`
	Node   *string `json:"node,omitempty"`
	Reason string  `json:"why"`
}

// Diff compares a record with the Node that is there, and with what capture makes of both.
func Diff(s nodestate.State, inputs plan.Inputs) Difference {
	node := observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations())
	_, settled, next := s.Simulate(inputs)
	prev, updated := s.Record.Items(), settled.Items()
	causes := map[string]string{}
	for _, edit := range next.Edits {
		if text := whyEdited(edit, next.Plan); text != "" {
			causes[edit.Item] = text
		}
	}
	reasons := inputs.Policy.Restorable(
		node.KeptItems(), policy.KeptItems{Items: updated, Machine: settled.Machine}, policy.Live).Withheld

	var waiting map[string]string // for an operator's decision between two machines
	if s.Record.Quarantined != nil {
		waiting = s.Missing(inputs)
	}
	d := Difference{Node: s.Name, Items: []DifferentItem{}, NotShown: []DifferentItem{}}
	for _, item := range nodestate.SortedItems(prev, updated, causes, waiting) {
		different := DifferentItem{Kind: nodestate.KindOf(item), Item: item, Record: nodestate.ValueIn(prev, item), Node: nodestate.ValueIn(node.Items, item)}
		current, old := nodestate.ValueIn(updated, item), nodestate.ValueIn(waiting, item)
		switch {
		case old != nil:
			different.Record, different.Reason = old, recordProblem(s, inputs)
		case !ptr.Equal(different.Record, current):
			different.Reason = notRecorded(different.Record, current)
		case causes[item] != "":
			different.Reason = causes[item]
		case ptr.Equal(different.Record, different.Node):
			continue
		default:
			different.Reason = cmp.Or(string(reasons[item]), recordProblem(s, inputs), "capture has still to decide")
			d.NotShown = append(d.NotShown, different)
			continue
		}
		d.Items = append(d.Items, different)
	}
	return d
}

// whyEdited returns why capture is to change an item. It is empty if the Node does not differ from its record there.
func whyEdited(edit plan.Edit, next plan.Plan) string {
	verb := "add"
	if edit.Removed {
		verb = "remove"
	}
	switch edit.Cause {
	case plan.CauseRecord:
		return "to be restored"
	case plan.CauseCorrection:
		if edit.Removed {
			return "restored from a stale record, to be removed"
		}
		return "restored from a stale record, to be corrected"
	case plan.CauseDerivedTaint:
		return "a rule is to " + verb + " it"
	case plan.CauseRule:
		if edit.Removed {
			return fmt.Sprintf("rule %s is to remove it", next.RuleOf(edit))
		}
		return fmt.Sprintf("rule %s is to set it to %q", next.RuleOf(edit), edit.Value)
	case plan.CauseEndedRule:
		if edit.Removed {
			return fmt.Sprintf("rule %s has set it, and no rule sets it now: to be removed", next.RuleOf(edit))
		}
		return "the label that a client gave it is to be restored"
	case plan.CauseMigration:
		return "a migration has renamed it: to be removed"
	default: // what a new Node gets once, and the gate
		return ""
	}
}

func notRecorded(prev, next *string) string {
	switch {
	case prev == nil:
		return "not recorded yet"
	case next == nil:
		return "removed from the Node, not recorded yet"
	default:
		return "changed on the Node, not recorded yet"
	}
}

// Document returns the answer as text.
func (d Difference) Document(time.Time) Document {
	table := func(title string, items []DifferentItem) *metav1.Table {
		t := tableOf(title, "Key", "Record", "Node", "Why")
		for _, item := range items {
			addRow(t, item.Kind, item.Item, nodestate.FormatValue(item.Record), nodestate.FormatValue(item.Node), item.Reason)
		}
		return t
	}
	return Document{Tables: []*metav1.Table{table("Different", d.Items), table("Recorded, not shown", d.NotShown)}}
}
