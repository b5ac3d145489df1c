package view

import (
	"strings"
	"time"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/nodestate"
)

// Adoption is a plan to hand labels over to rules.
type Adoption struct{ impact.Adoption }

// Document returns the plan.
func (a Adoption) Document(time.Time) Document {
	var d Document
	d.addFact("Label", a.Key)
	d.addFact("To hand over", "on "+Counted(len(a.Adopt), "Node"))
	d.addFact("Rule's already", "on "+Counted(a.Derived, "Node"))
	d.addFact("To leave alone", "on "+Counted(len(a.Left), "Node"))
	adopt, left := tableOf("To hand over", "Rule", "Nodes", "Such as"), tableOf("To leave alone", "Rule", "Why", "Nodes", "Such as")
	for _, group := range impact.Grouped(a.Adopt) {
		addRow(adopt, nodestate.FormatValue(&group.Value), group.Rule, group.Nodes, strings.Join(group.First, ","))
	}
	for _, group := range impact.Grouped(a.Left) {
		addRow(left, nodestate.FormatValue(&group.Value), orDash(group.Rule), group.Reason, group.Nodes, strings.Join(group.First, ","))
	}
	d.Tables = append(d.Tables, adopt, left)
	return d
}
