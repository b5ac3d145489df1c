package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
)

// Violations is what is wrong with the labels of a Node. A missing label breaks no rule while the rule that sets it lacks a fact.
func Violations(r record.Record, node *observe.Node, in Circumstances) []governance.Violation {
	violations := in.Policy.Governance().Violations(labelsOf(node.Items))
	if !slices.ContainsFunc(violations, func(v governance.Violation) bool { return v.Missing() != "" }) {
		return violations // no rule needs to be evaluated
	}
	in.Why = nil
	var change Change
	result, _ := change.followLabelRules(r, r, node, in)
	return governance.Known(violations, result.Blocked)
}

// noncompliant reports whether the Node should have the taint of Nodes that break a rule of governance. The parameter items is what the
// Node has after the change. A Node that this very change corrects does not get the taint. A Node that has the taint keeps it while it
// breaks a rule. A capture that has just started does not know since when.
func noncompliant(node *observe.Node, items map[string]string, rules classify.Result, derived []corev1.Taint, in Circumstances) bool {
	taint, _, wanted := in.Policy.Governance().Noncompliant()
	breaks := func(items map[string]string) bool {
		return governance.Breaks(governance.Known(in.Policy.Governance().Violations(labelsOf(items)), rules.Blocked))
	}
	switch {
	case !wanted:
		return false
	case slices.Contains(derived, taint):
		return breaks(node.Items)
	default:
		return in.Overdue && breaks(node.Items) && breaks(items)
	}
}

// labelsOf are the labels among items.
func labelsOf(items map[string]string) map[string]string {
	labels := maps.Clone(items)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !record.IsLabel(key) })
	return labels
}
