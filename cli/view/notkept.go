package view

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotKept is a label or taint that Nodes show and a policy does not keep, with the reason. The reason names the owner of the key, if it has one.
type NotKept struct {
	Item  string   `json:"item"`
	Why   string   `json:"why"`
	Nodes int      `json:"nodes"`
	First []string `json:"first"` // the first of these Nodes
}

// mostNotKept bounds what is listed: kubelets can make ever new labels.
const mostNotKept = 1000

// NotKeptItems counts Nodes by item and reason.
type NotKeptItems struct {
	items map[[2]string]*NotKept
	more  int // what is left out
}

// See counts one.
func (n *NotKeptItems) See(item, why, node string) {
	key := [2]string{item, why}
	of, known := n.items[key]
	if !known {
		if len(n.items) == mostNotKept {
			n.more++
			return
		}
		if n.items == nil {
			n.items = map[[2]string]*NotKept{}
		}
		of = &NotKept{Item: item, Why: why}
		n.items[key] = of
	}
	of.Nodes++
	if len(of.First) < firstNodes {
		of.First = append(of.First, node)
	}
}

// All are grouped by reason, and so by owner.
func (n *NotKeptItems) All() []NotKept {
	all := make([]NotKept, 0, len(n.items))
	for _, of := range n.items {
		all = append(all, *of)
	}
	slices.SortFunc(all, func(a, b NotKept) int { return cmp.Or(cmp.Compare(a.Why, b.Why), compareItems(a.Item, b.Item)) })
	return all
}

func notKeptTable(all []NotKept) *metav1.Table {
	table := tableOf("Not kept", "Key", "Nodes", "Why", "+Such as")
	for _, of := range all {
		add(table, kindOf(of.Item), of.Item, of.Nodes, of.Why, strings.Join(of.First, ","))
	}
	return table
}
