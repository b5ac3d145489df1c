package view

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
)

// Difference is how what is remembered of a Node differs from what the live Node shows and the policy keeps.
type Difference struct {
	Node     string          `json:"node"`
	Items    []DifferentItem `json:"items"`
	Withheld []DifferentItem `json:"withheld"` // remembered, and not given for a reason; no difference to be mended
}

// DifferentItem is one label or taint.
type DifferentItem struct {
	Kind   string  `json:"kind"`
	Item   string  `json:"item"`
	Record *string `json:"record,omitempty"`
	Node   *string `json:"node,omitempty"`
	Why    string  `json:"why"`
}

// Diff compares a record with the Node that is there.
func Diff(s Sight, w World) Difference {
	node := capture.Metadata(s.Record, s.Node, w.Policy)
	live := w.Policy.Keep(node).Items
	maps.Copy(live, taintItems(node.RuleTaints))
	recorded := s.Record.Shown()
	maps.Copy(recorded, taintItems(s.Record.RuleTaints))

	d := Difference{Node: s.Name, Items: []DifferentItem{}, Withheld: []DifferentItem{}}
	all := maps.Clone(live)
	maps.Copy(all, recorded)
	for _, item := range sortedItems(all) {
		different := DifferentItem{Kind: kindOf(item), Item: item, Record: valueIn(recorded, item), Node: valueIn(node.Items, item)}
		_, kept := live[item]
		switch {
		case kept && same(different.Record, different.Node):
			continue
		case kept && different.Record == nil:
			different.Why = "not recorded yet"
		case kept:
			different.Why = "changed on the Node, not recorded yet"
		case different.Node == nil:
			different.Why = "the Node lacks it"
		default:
			different.Why = w.Policy.Judge(node, item).Why()
		}
		d.Items = append(d.Items, different)
	}
	reasons := w.Policy.Missing(
		policy.Kept{Items: node.Items, Machine: node.Machine},
		policy.Kept{Items: s.Record.Remembered(), Machine: policy.Machine(s.Record.Machine)}, policy.Live).Withheld
	for _, item := range sortedItems(s.Record.Withheld.Items) {
		d.Withheld = append(d.Withheld, DifferentItem{
			Kind: kindOf(item), Item: item, Record: valueIn(s.Record.Withheld.Items, item), Node: valueIn(node.Items, item), Why: withheldWhy(reasons[item]),
		})
	}
	return d
}

// withheldWhy is the policy's reason; without one, it is given as soon as capture has looked again.
func withheldWhy(reason policy.Reason) string {
	if reason == "" {
		return "the API server has refused it, or it is about to be given"
	}
	return string(reason)
}

// Document is for people.
func (d Difference) Document(time.Time) Document {
	table := func(title string, items []DifferentItem) *metav1.Table {
		t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column(title), column("Key"), column("Record"), column("Node"), column("Why")}}
		for _, item := range items {
			t.Rows = append(t.Rows, row(item.Kind, item.Item, shown(item.Record), shown(item.Node), item.Why))
		}
		return t
	}
	return Document{Tables: slices.Clip([]*metav1.Table{table("Different", d.Items), table("Withheld", d.Withheld)})}
}
