package plan

import (
	"maps"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// ForCreate returns what a Node gets in its CREATE. Labels that have to wait for capture are deferred: those that no kubelet may set on its own Node, and
// those that labels.defer of the policy names. The parameter r is what may be restored: the zero Record if nothing may be. Whether the gate is closed or
// lifted is left to the caller, which knows whether the record is current.
func ForCreate(node *observe.Node, r record.Record, inputs Inputs, occasion policy.Occasion) Plan {
	restore := inputs.Policy.Restorable(node.KeptItems(), policy.KeptItems{Items: r.Items(), Machine: r.Machine}, occasion)
	p := Plan{SourceRecord: r, Withheld: restore.Withheld, Edits: SetItems(CauseRecord, restore.Add)}
	for _, edit := range SetItems(CauseRecord, restore.Deferred) {
		edit.Deferred = true
		p.Edits = append(p.Edits, edit)
	}
	rulesRecord := r
	if node.Machine.Compare(r.Machine) != record.SameMachine {
		rulesRecord.RuleLabels = nil
	}
	p.applyRules(rulesRecord, r, node, inputs, occasion)
	for key, label := range p.RuleLabels {
		label.RemovedAtCreate = label.Absent && node.Shows(key)
		p.RuleLabels[key] = label
	}
	itemsAfter := p.ItemsAfter(node)
	p.deriveTaints(node, itemsAfter, nil, inputs)
	p.addRegistrationTaints(node, itemsAfter, inputs.Policy)
	return p
}

// RuleLabelsInCreate returns the labels that rules set in this request, and the items that they remove. Those in DeferredRuleLabels wait for capture.
func (p Plan) RuleLabelsInCreate() map[string]record.RuleLabel {
	labels := p.RuleLabels
	for key := range p.DeferredRuleLabels() {
		if len(labels) == len(p.RuleLabels) {
			labels = maps.Clone(labels)
		}
		delete(labels, key)
	}
	return labels
}

// DeferredRuleLabels returns the labels that rules set and that wait for capture.
func (p Plan) DeferredRuleLabels() (deferred map[string]record.RuleLabel) {
	for _, edit := range p.Edits {
		if edit.Deferred && edit.Cause == CauseRule {
			deferred = withEntry(deferred, edit.Item, p.RuleLabels[edit.Item])
		}
	}
	return deferred
}

// InlinePlan returns the plan that sets the labels which no kubelet may carry already in the CREATE, for the second webhook, which runs after
// NodeRestriction (protected: inline). Labels of labels.defer still wait for capture, and then the gate is not lifted. If the Node would
// still lack anything else, ok is false.
func (p Plan) InlinePlan(pol policy.Policy) (inline Plan, ok bool) {
	if len(p.LabelsWithoutRoom) > 0 {
		return Plan{}, false
	}
	inline, deferred := Plan{SourceRecord: p.SourceRecord, Withheld: p.Withheld}, false
	for _, edit := range p.Edits {
		switch pattern, _ := pol.DeferPattern(edit.Item); {
		case !edit.Deferred && edit.Cause == CauseRecord:
			return Plan{}, false
		case !edit.Deferred:
		case pattern != "":
			deferred = true
		default:
			edit.Deferred = false
			inline.Edits = append(inline.Edits, edit)
			if edit.Cause == CauseRule {
				inline.RuleLabels = withEntry(inline.RuleLabels, edit.Item, p.RuleLabels[edit.Item])
			}
		}
	}
	if len(inline.Edits) == 0 {
		return Plan{}, false
	}
	if !deferred {
		inline.add(LiftGate(pol.Gate())...)
	}
	return inline, true
}

// ItemsOfCreate returns items that the client itself sent in the CREATE of the Node and that the plan does not change, with their values: those that the
// record has, and those of the kubelet. If one of them is missing later, a client has removed it from this Node object.
func (p Plan) ItemsOfCreate(node *observe.Node, r record.Record, pol policy.Policy, occasion policy.Occasion) map[string]string {
	items := kubeletItems(node, r, pol, occasion)
	for _, e := range r.Entries {
		if value, ok := node.Items[e.Key]; ok && !e.Removed && !pol.Gate().Matches(record.Taint(e.Key, "")) {
			items[e.Key] = record.StampValue(e.Key, value)
		}
	}
	for _, edit := range p.Edits {
		if edit.Cause == CauseRecord && !edit.Deferred {
			delete(items, edit.Item)
		}
	}
	for key := range p.RuleLabelsInCreate() {
		delete(items, key)
	}
	return items
}

// kubeletItems returns the labels that the kubelet sets and that the record has no value of, and the startup taints: those that the kubelet sets each
// time and a controller removes each time. The stamp has to list both. The API server can lose the managedFields that show whose a label is, and
// managedFields never show whose a single taint is.
func kubeletItems(node *observe.Node, r record.Record, pol policy.Policy, occasion policy.Occasion) map[string]string {
	items := map[string]string{}
	if occasion != policy.CreateByKubelet || len(node.Items) > maxItems {
		return items
	}
	for key, value := range node.Items {
		e, known := r.Entry(key)
		label, startupTaint := record.IsLabel(key) && (!known || e.Removed), record.IsTaint(key) && known && e.Removed
		if (label || startupTaint) && pol.Selects(key) {
			items[key] = record.StampValue(key, value)
		}
	}
	if len(items) > policy.MaxKubeletItems {
		clear(items)
	}
	return items
}

// maxItems bounds the work for one object. No real Node has so many items.
const maxItems = 1000
