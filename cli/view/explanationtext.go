package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
)

// Document is the answer as text.
func (e Explanation) Document(now time.Time) Document {
	var d Document
	d.with("Node", e.Node)
	d.with("Status", string(e.Status))
	d.with("Problem", e.Problem)
	d.with("Verification", e.Unverified)
	d.with("Follows", e.Follows.text())
	d.with("Registration", e.Registration.text())
	if e.Capture != nil {
		d.with("Capture now", e.Capture.text())
	}
	d.with("Governance", strings.Join(e.Violations, "; "))
	if e.RulesHeld != "" {
		d.with("Rules held", strings.TrimSuffix("they only add labels, "+e.RulesHeldUntil, ", "))
	}
	table := tableOf("Item", "Key", "Node", "Record", "Registration", "Kept", "Why", "+Managers")
	for _, item := range e.Items {
		add(table, item.Kind, item.Item, shown(item.OnNode), shown(item.Remembered), item.Registration, yesNo(item.Kept), strings.Join(append([]string{item.Why}, item.Claims...), "; "), orNone(strings.Join(item.Managers, ",")))
	}
	d.Tables = []*metav1.Table{table}
	if len(e.Rules) > 0 {
		d.Tables = append(d.Tables, rulesTable(e.Rules))
	}
	if len(e.Inventories) > 0 {
		d.Tables = append(d.Tables, inventoryTable(e.Inventories, now))
	}
	return d
}

func (r ExplainedReview) text() string {
	if r.Passes != "" {
		return "passes as it is: " + r.Passes
	}
	gate := "the gate is off"
	if r.Gated {
		gate = "the gate is on"
	}
	return "by " + cmp.Or(r.User, "nobody") + ": " + strings.ReplaceAll(r.Outcome, "_", " ") + "; " + gate
}

func (c ExplainedCapture) text() string {
	var parts []string
	add := func(what, items string) {
		if items != "" {
			parts = append(parts, what+" "+items)
		}
	}
	add("restores", listOf(c.Restore))
	add("corrects", listOf(c.Correct))
	add("sets by rules", listOf(c.RuleSets))
	add("removes", strings.Join(slices.Concat(c.Remove, c.RuleRemoves, c.RemoveTaints), ", "))
	add("adds", strings.Join(c.AddTaints, ", "))
	if c.LiftGate {
		parts = append(parts, "lifts the gate")
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case c.Step == string(capture.Nothing):
		return "has nothing to do"
	default:
		return "writes the record (" + strings.ReplaceAll(c.Step, "_", " ") + ")"
	}
}
