package nodestate

import (
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/report"
)

// Drift returns the labels of an existing Node that differ from its record, or from what rules derive. It returns compared as false if the record
// cannot be used.
func (s State) Drift(inputs plan.Inputs) (labels []report.DriftedLabel, compared bool) {
	if s.Unreadable != nil || s.Record != nil && s.Record.WholeRecordQuarantined() {
		return nil, false
	}
	node := observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations())
	_, recordAfter, next := s.Simulate(inputs)
	prev, updated := ItemsOf(s.Record), ItemsOf(recordAfter)
	found := map[string]report.DriftedLabel{}
	differs := func(key string, kind report.DriftKind, from string, want *string) {
		if _, known := found[key]; !known && record.IsLabel(key) {
			found[key] = report.DriftedLabel{Key: key, Kind: kind, From: from, Actual: ValueIn(node.Items, key), Want: want}
		}
	}
	for key, label := range next.RuleLabels { // what rules derive
		if value := ValueIn(node.Items, key); !label.ShownBy(node.Items, key) {
			kind, want := report.Differs, &label.Value
			if label.Absent {
				kind, want = report.Stale, nil
			} else if value == nil {
				kind = report.NotRestored
			}
			differs(key, kind, "rule:"+label.Rule, want)
		}
	}
	for key, label := range next.Rules.Taken {
		if value, ok := node.Items[key]; ok && value != label.Value {
			differs(key, report.Overridden, "rule:"+label.Rule, &label.Value)
		}
	}
	for _, edit := range next.Edits {
		switch by := "record"; edit.Cause {
		case plan.CauseRule, plan.CauseEndedRule, plan.CauseMigration:
			if edit.Removed {
				differs(edit.Item, report.Stale, "rule:"+next.RuleLabelsBefore[edit.Item].Rule, nil)
			} else {
				differs(edit.Item, report.Differs, by, &edit.Value)
			}
		case plan.CauseRecord:
			differs(edit.Item, report.NotRestored, by, &edit.Value)
		case plan.CauseCorrection:
			if edit.Removed {
				differs(edit.Item, report.Stale, by, nil)
			} else {
				differs(edit.Item, report.Differs, by, &edit.Value)
			}
		default: // taints and the gate are no labels
		}
	}
	for key, value := range updated {
		if !ptr.Equal(ValueIn(prev, key), &value) && ptr.Equal(ValueIn(node.Items, key), &value) {
			differs(key, report.NotRecorded, "record", ValueIn(prev, key))
		}
	}
	if recordAfter != nil {
		for key := range inputs.Policy.Restorable(node.KeptItems(), policy.KeptItems{Items: updated, Machine: recordAfter.Machine}, policy.Live).Withheld {
			value := updated[key]
			switch shown := ValueIn(node.Items, key); {
			case shown == nil:
				differs(key, report.Withheld, "record", &value)
			case *shown != value && next.RuleLabels[key].Rule == "": // else the rule's value hides the recorded one
				differs(key, report.Differs, "record", &value)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		labels = append(labels, found[key])
	}
	return labels, true
}
