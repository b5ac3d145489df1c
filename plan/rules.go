package plan

import (
	"maps"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// applyRules adds the edits that rules for labels want once the edits that the plan has are made. The parameter prev is the record as it was read, and r
// is that record with this observation merged. If the API server has refused one of the labels on this object, refused is true.
func (p *Plan) applyRules(prev, r record.Record, node *observe.Node, inputs Inputs, occasion policy.Occasion) (refused bool) {
	hasRuleLabels := len(node.AnnotatedLabels()) > 0 || inputs.Policy.RulesHeld() && len(prev.RuleLabels) > 0
	if inputs.Policy.LabelRules().Empty() && !hasRuleLabels { // migrations are rules, too
		return false
	}
	trusted := withoutMarks(node.TrustedRuleLabels(r, inputs.Policy, inputs.GuardInForce))
	p.Rules = p.evaluateRules(prev, r, node, trusted, inputs)
	maps.DeleteFunc(p.Rules.Labels, func(key string, label record.RuleLabel) bool {
		refused = refused || inputs.Refused[key] && !label.Absent
		return inputs.Refused[key]
	})
	shown := shownLabels(trusted, node.Items)
	for key, label := range shown {
		if inputs.Refused[key] {
			p.Rules.Labels = withEntry(p.Rules.Labels, key, label)
		}
	}

	p.RuleLabelsBefore, p.RuleLabels = trusted, p.Rules.Labels
	if !policy.RoomFor(p.RuleLabels, node.AnnotationBytes+policy.AnnotationBytes(record.SplitAnnotations(p.WithCause(CauseRecord).Values()))) {
		p.LabelsWithoutRoom = missingLabels(p.RuleLabels, node.Items) // not set: without its entry in the annotation, a label would count as an operator's
		p.RuleLabels = shown                                          // the labels on the Node stay: a kubelet that fills the annotations removes none of them
	}
	p.setByRules(node, inputs.Policy, occasion)
	p.undoEndedRules(r, node, inputs)
	p.WriteLabelsAnnotation = !record.SameRuleLabels(p.RuleLabels, node.AnnotatedLabels()) || p.HasCause(CauseRule)
	return refused
}

// evaluateRules returns what the rules say of a Node after the change. The labels in listed are those that rules have set on it.
func (p *Plan) evaluateRules(prev, r record.Record, node *observe.Node, listed map[string]record.RuleLabel, inputs Inputs) (result classify.Result) {
	facts := inputs.facts(node, p.labelsOfOthers(r, node, listed, inputs.Policy))
	last := lastRuleLabels(prev, node, listed)
	if inputs.Trace == nil {
		result = inputs.Policy.Classify(facts, last, inputs.Now)
	} else {
		result, *inputs.Trace = inputs.Policy.LabelRules().Explain(facts, last, inputs.Now)
	}
	maps.DeleteFunc(result.Labels, func(key string, label record.RuleLabel) bool { // whether it is to be removed is not known
		_, blocked := result.Blocked[key]
		return label.Absent && blocked && node.Shows(key)
	})
	if inputs.Policy.RulesHeld() {
		result.Labels = result.LabelsWhenHeld(keptWhileHeld(listed, last, node.Items), last, func(item string) bool {
			return node.Shows(item) || slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Cause == CauseRecord && edit.Item == item })
		})
	}
	return result
}

// labelsOfOthers returns the labels that the Node will have. Labels that rules have set have the values that clients gave them, as on a
// registering Node.
func (p *Plan) labelsOfOthers(r record.Record, node *observe.Node, listed map[string]record.RuleLabel, pol policy.Policy) map[string]string {
	labels := labelsOf(p.ItemsAfter(node))
	if len(listed) > 0 {
		labels = classify.WithoutRuleLabels(labels, listed)
	}
	for key := range listed {
		if _, ok := labels[key]; ok || !record.IsLabel(key) {
			continue
		}
		if value, ok := clientsValue(r, node, key, pol); ok {
			labels[key] = value
		}
	}
	return labels
}

// setByRules adds the edits that rules want. A rule's value wins over the record's on the Node. The record keeps its own value.
func (p *Plan) setByRules(node *observe.Node, pol policy.Policy, occasion policy.Occasion) {
	p.deleteEdits(func(edit Edit) bool {
		_, hasRule := p.RuleLabels[edit.Item]
		return hasRule && (edit.Cause == CauseRecord || edit.Cause == CauseCorrection)
	})
	for _, key := range slices.Sorted(maps.Keys(p.RuleLabels)) {
		label := p.RuleLabels[key]
		if label.ShownBy(node.Items, key) {
			continue
		}
		edit := Edit{DesiredItem: DesiredItem{Item: key, Value: label.Value, Removed: label.Absent}, Cause: CauseRule}
		_, deferred := pol.DeferPattern(key)
		edit.Deferred = deferred && !label.Absent && occasion == policy.CreateByKubelet
		p.Edits = append(p.Edits, edit)
	}
	p.sort()
}

// undoEndedRules undoes what rules have made of items that no rule decides any more. Each gets a client's value, or is removed.
func (p *Plan) undoEndedRules(r record.Record, node *observe.Node, inputs Inputs) {
	for _, key := range slices.Sorted(maps.Keys(p.RuleLabelsBefore)) {
		listed := p.RuleLabelsBefore[key]
		if !listed.ShownBy(node.Items, key) {
			continue // a client has changed it, and no other client's label is removed
		}
		if _, wanted := p.RuleLabels[key]; wanted {
			continue
		}
		value, ok := clientsValue(r, node, key, inputs.Policy)
		ok = ok && !inputs.Refused[key]
		switch e, _ := r.Entry(key); {
		case ok && r.DecidedOn(e) != node.UID: // lost with an older object, as what else is restored
			p.add(Edit{DesiredItem{key, value, false}, CauseRecord, false})
		case ok:
			p.add(Edit{DesiredItem{key, value, false}, CauseEndedRule, false}) // not CauseRecord, with which the stamp would list it: then a label that is missing later would count as removed by the client
		case !listed.Absent:
			p.add(Edit{DesiredItem{Item: key, Removed: true}, CauseEndedRule, false})
		}
	}
}

// withoutMarks returns the labels as records have them: without Adopted, RemovedAtCreate and Version. The mark Adopted is removed from the annotation once the
// record no longer has the value of the client that set the label before.
func withoutMarks(labels map[string]record.RuleLabel) map[string]record.RuleLabel {
	labels = maps.Clone(labels)
	for key, label := range labels {
		label.Adopted, label.RemovedAtCreate, label.Version = false, false, 0
		labels[key] = label
	}
	return labels
}

// lastRuleLabels returns what rules said of this machine last: the record has it before the Node shows it.
func lastRuleLabels(prev record.Record, node *observe.Node, listed map[string]record.RuleLabel) map[string]record.RuleLabel {
	sameMachine := prev.Newest().UID == node.UID || node.Machine.Compare(prev.Machine) == record.SameMachine
	if prev.RuleLabels == nil || !sameMachine {
		return listed
	}
	return prev.RuleLabels
}

// shownLabels returns the labels of rules that a Node with these items shows as they were set.
func shownLabels(listed map[string]record.RuleLabel, items map[string]string) map[string]record.RuleLabel {
	shown := maps.Clone(listed)
	maps.DeleteFunc(shown, func(key string, label record.RuleLabel) bool { return !label.ShownBy(items, key) })
	return shown
}

// keptWhileHeld returns the labels of rules that stay as they are while new rules must only add labels. These are the listed labels that the Node has,
// and what rules set or removed by the record, if this object never listed it, because no webhook answered or no kubelet may carry it. A label that the
// Node lists and lacks does not stay: a client has removed it.
func keptWhileHeld(labels, last map[string]record.RuleLabel, items map[string]string) map[string]record.RuleLabel {
	kept := shownLabels(labels, items)
	for key, label := range last {
		_, listed := labels[key]
		_, shown := items[key]
		if !listed && (!shown || label.Absent) {
			kept = withEntry(kept, key, label)
		}
	}
	return kept
}

// RuleLabelsToRecord returns the labels of rules as the record keeps them after the plan. Labels that the API server has refused on this object stay as they
// were. The machine's next object may have them.
func (p Plan) RuleLabelsToRecord(prev record.Record, node *observe.Node, inputs Inputs) map[string]record.RuleLabel {
	if len(inputs.Refused) == 0 {
		return p.RuleLabels
	}
	kept := maps.Clone(p.RuleLabels)
	for key, label := range lastRuleLabels(prev, node, nil) {
		if _, ok := kept[key]; !ok && inputs.Refused[key] {
			kept = withEntry(kept, key, label)
		}
	}
	return kept
}

// missingLabels returns the labels that the Node lacks or has with other values.
func missingLabels(labels map[string]record.RuleLabel, items map[string]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if label := labels[key]; !label.Absent && !label.ShownBy(items, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// clientsValue returns the value that a client gave a label, if the policy restores it once no rule sets it.
func clientsValue(r record.Record, node *observe.Node, key string, pol policy.Policy) (value string, ok bool) {
	e, known := r.Entry(key)
	if !known || e.Removed || r.WholeRecordQuarantined() {
		return "", false
	}
	restore := pol.Restorable(policy.KeptItems{Machine: node.Machine}, policy.KeptItems{Items: map[string]string{key: e.Value}, Machine: r.Machine}, policy.Live)
	value, ok = restore.Add[key]
	return value, ok
}

// requeueAfter returns when to evaluate the rules again although nothing is observed. A label is held for a time, or a device plugin may still
// register. 0 is never.
func requeueAfter(result classify.Result, node *observe.Node, now time.Time) (delay time.Duration) {
	sooner := func(due time.Time) {
		if wait := due.Sub(now); wait > 0 && (delay == 0 || wait < delay) {
			delay = wait
		}
	}
	for _, label := range result.Labels {
		if !label.End.IsZero() {
			sooner(label.End)
		}
	}
	if result.Unknown && node.Reported.ReadySince != 0 {
		sooner(time.Unix(node.Reported.ReadySince, 0).Add(classify.PluginGrace))
	}
	return delay
}

// labelsToList returns the labels of rules as the annotation lists them after the change. The version of a label is the resourceVersion of the Node as it
// was when nodekeep last changed the label or its entry.
func (p Plan) labelsToList(node *observe.Node) map[string]record.RuleLabel {
	prev, next := node.AnnotatedLabels(), maps.Clone(p.RuleLabels)
	for key, label := range next {
		old, listed := prev[key]
		label.Version = node.Version
		if listed && !p.changedByRule(key) && old.Value == label.Value && old.Absent == label.Absent && old.Adopted == label.Adopted {
			label.Version = old.Version
		}
		next[key] = label
	}
	return next
}

// RemovesOrReplacesLabels reports whether a label that the Node shows (items), or that rules have set, is removed or replaced. A change back to an
// operator's value counts. So does a label that is removed only when its hold ends. What rules set again, after another client has changed it,
// does not count.
func (p Plan) RemovesOrReplacesLabels(items map[string]string) bool {
	for key, label := range p.RuleLabels {
		if listed, ok := p.RuleLabelsBefore[key]; ok && listed.End.IsZero() && !label.End.IsZero() {
			return true
		}
	}
	return slices.ContainsFunc(p.RuleEdits(), func(edit Edit) bool {
		listed, ok := p.RuleLabelsBefore[edit.Item]
		_, shown := items[edit.Item]
		return edit.Removed || ok && (listed.Absent || listed.Value != edit.Value) || !ok && shown
	})
}

// Drifted returns the labels of rules that another client has changed or removed. It includes items that rules remove and the client has added
// again.
func (p Plan) Drifted() (keys []string) {
	for _, edit := range p.RuleEdits() {
		listed, ok := p.RuleLabelsBefore[edit.Item]
		if edit.Removed && listed.Absent || !edit.Removed && ok && !listed.Absent && listed.Value == edit.Value {
			keys = append(keys, edit.Item)
		}
	}
	return keys
}

// RulesRemoveOrReplaceLabels reports whether rules that are not held would remove or replace labels of a Node. Labels of operators count, too.
func RulesRemoveOrReplaceLabels(r record.Record, node *observe.Node, inputs Inputs) bool {
	inputs.Policy = inputs.Policy.WithRulesHeld(false)
	if MigrationsRemoveLabel(r, node, inputs) {
		return true
	}
	if len(node.AnnotatedLabels()) == 0 && !inputs.Policy.LabelRules().MayRemoveOrReplace() {
		return false
	}
	var p Plan
	p.applyRules(r, r, node, inputs, policy.Live)
	return p.RemovesOrReplacesLabels(node.Items)
}

// keysToRemoveAfterRename returns the old keys of labels that migrations have renamed, which are to be removed from the Node. Node and record have the new key of
// each already, so that the label is never missing under both.
func keysToRemoveAfterRename(node *observe.Node, r record.Record, inputs Inputs) (keys []string) {
	if inputs.Policy.RulesHeld() || len(inputs.Policy.Migrations()) == 0 || r.WholeRecordQuarantined() {
		return nil
	}
	metadata := node.Metadata(r, inputs.Policy, inputs.GuardInForce)
	for _, m := range inputs.Policy.Migrations() {
		if m.Removes(inputs.Policy, metadata) && !inputs.Refused[m.From] {
			keys = append(keys, m.From)
		}
	}
	return keys
}

// MigrationsRemoveLabel reports whether migrations that are not held remove a label of a Node.
func MigrationsRemoveLabel(r record.Record, node *observe.Node, inputs Inputs) bool {
	inputs.Policy = inputs.Policy.WithRulesHeld(false)
	renamed, _ := node.Renamed(r, inputs.Policy, inputs.GuardInForce, inputs.Now)
	return len(keysToRemoveAfterRename(node, renamed, inputs)) > 0
}
