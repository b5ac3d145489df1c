package view

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotKept is a label or taint that Nodes show and a policy does not keep, with the reason. The reason names the owner of the key, if it has one.
type NotKept struct {
	Item string `json:"item"`
	Why  string `json:"why"`
	NodeCount
}

// mostNotKept bounds what is listed.
const mostNotKept = 1000

// NotKeptItems counts Nodes by item and reason.
type NotKeptItems struct{ items tally[[2]string, NotKept] }

// See counts what a Node shows.
func (n *NotKeptItems) See(node string, j Judgement) {
	for _, item := range sortedItems(j.Items()) {
		keeps, why := j.Keeps(item)
		if keeps {
			continue
		}
		if of := n.items.at([2]string{item, why}, mostNotKept, NotKept{Item: item, Why: why}); of != nil {
			of.see(node)
		}
	}
}

// All are grouped by reason, and so by owner.
func (n *NotKeptItems) All() []NotKept {
	return n.items.sorted(func(a, b NotKept) int { return cmp.Or(cmp.Compare(a.Why, b.Why), compareItems(a.Item, b.Item)) })
}

func notKeptTable(all []NotKept) *metav1.Table {
	table := tableOf("Not kept", "Key", "Nodes", "Why", "+Such as")
	for _, of := range all {
		add(table, kindOf(of.Item), of.Item, of.Nodes, of.Why, strings.Join(of.First, ","))
	}
	return table
}
