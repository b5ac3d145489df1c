package view

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/policy"
)

// ExplainedInventory is what capture notes of a source that rules can use. What the source says of a Node only capture knows.
type ExplainedInventory struct {
	Source string `json:"source"`
	inventories.SourceStatus
	Stale   bool   `json:"stale,omitempty"`   // rules do not know its facts
	Problem string `json:"problem,omitempty"` // what it has wrong of the Node
}

// InventoriesOf returns the sources of a policy whose rules use any, as capture has noted them. It returns nil if the rules use none. If notes is nil,
// capture has noted nothing yet. Of what they have wrong, only what is about the Node is in them.
func InventoriesOf(node string, notes *corev1.ConfigMap, p policy.Policy, now time.Time) (all []ExplainedInventory) {
	if !p.LabelRules().LooksAtInventory() {
		return nil
	}
	for _, source := range p.Inventory() {
		status, _ := inventories.SourceStatusOf(notes, source.Name)
		explained := ExplainedInventory{Source: source.Name, SourceStatus: status, Stale: now.Sub(status.Confirmed) > source.StaleAfter}
		explained.Problem, explained.Problems = problemOf(node, status), nil
		all = append(all, explained)
	}
	return all
}

// problemOf returns what a source has wrong of a Node. A note names the first of many problems only.
func problemOf(node string, status inventories.SourceStatus) string {
	for _, problem := range status.Problems {
		if problem.Node == node {
			return problem.Message
		}
	}
	if left := status.ProblemCount - len(status.Problems); left > 0 {
		return fmt.Sprintf("not known: %d more problems than capture notes", left)
	}
	return ""
}

// state reports in a few words whether rules know the facts, and why not.
func (i ExplainedInventory) state() string {
	var parts []string
	switch {
	case i.Confirmed.IsZero():
		parts = append(parts, "not read yet: rules do not know its facts")
	case i.Stale:
		parts = append(parts, "stale: rules do not know its facts, and labels stay")
	}
	if i.Failure != "" {
		parts = append(parts, "cannot be read ("+i.Failure+")")
	}
	if i.Held != "" {
		parts = append(parts, fmt.Sprintf("snapshot %s is held until nodekeep accept rules", i.Held))
	}
	if i.Problem != "" {
		parts = append(parts, "wrong about this Node: "+i.Problem)
	}
	return orDash(strings.Join(parts, "; "))
}

// inventoryTable has the age of the facts: since when a source last said what is in force.
func inventoryTable(all []ExplainedInventory, now time.Time) *metav1.Table {
	table := tableOf("Inventory", "Age of facts", "In force", "Since", "Nodes", "State")
	for _, explained := range all {
		addRow(table, explained.Source, age(explained.Confirmed, now), orDash(explained.InForce), age(explained.Applied, now), explained.Nodes, explained.state())
	}
	return table
}
