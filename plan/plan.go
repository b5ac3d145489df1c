package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// ManagedFieldsItem is the item under which fights and refusals count a change of the Node's field managers.
const ManagedFieldsItem = "metadata.managedFields"

// Plan is what nodekeep changes on a Node in one request.
type Plan struct {
	Edits

	RuleLabelsBefore map[string]record.RuleLabel // labels of rules as the annotation lists them before the change
	RuleLabels       map[string]record.RuleLabel // and after it; with those that wait for capture
	DerivedTaints    []corev1.Taint              // the derived taints of the Node after the change
	// WriteLabelsAnnotation says that the annotation of labels has to be written.
	WriteLabelsAnnotation bool
	// TaintsAnnotationStale says that the annotation lists a derived taint that the Node does not show any more. A client that adds this taint later
	// would lose it, since nodekeep would take it for its own.
	TaintsAnnotationStale bool

	// RestoredOwners are the field managers to give back, by item: those of items that nodekeep has restored and manages since.
	RestoredOwners map[string]record.Owners
	// ManagedFields is metadata.managedFields of the Node with these managers. It is nil although there are RestoredOwners while the Node has to be read first.
	ManagedFields []metav1.ManagedFieldsEntry

	// Boot is the ID of the boot that the stamp names after the change, where it is a reason for the change; empty: it is none. If the stamp named another
	// one before, registration taints are added again because of the reboot.
	Boot string

	// ByClient says that the change follows a client's decision: an operator's command, or a declared emergency. No annotation of nodekeep lists it.
	ByClient bool

	SourceRecord record.Record // what is restored and corrected is from it
	StampBefore  record.Stamp  // the Node's, before the change: the annotation in which nodekeep notes what it set

	// Withheld are the items of the record that the Node lacks and does not get now.
	Withheld map[string]policy.Reason
	// LabelsWithoutRoom are labels that rules want and the annotation has no room to list. They wait, and with them the gate.
	LabelsWithoutRoom []string
	// TaintConflicts are taints that rules want and cannot have. The Node has a taint of the same key and effect that is not nodekeep's.
	TaintConflicts []corev1.Taint
	// Rules is what the rules for labels say.
	Rules classify.Result
	// RequeueAfter is after what time to plan again although nothing is observed; 0: never.
	RequeueAfter time.Duration
}

// RestoresNothing reports whether the Node has all that the record restores, and nothing stale.
func (p Plan) RestoresNothing() bool { return !p.HasCause(CauseRecord, CauseCorrection) }

// HasRuleEdits reports whether rules for labels change an item.
func (p Plan) HasRuleEdits() bool { return p.HasCause(CauseRule, CauseEndedRule, CauseMigration) }

// RuleEdits returns the edits because of rules for labels.
func (p Plan) RuleEdits() Edits { return p.WithCause(CauseRule, CauseEndedRule, CauseMigration) }

// WritesTaintsAnnotation reports whether the annotation of derived taints has to be written.
func (p Plan) WritesTaintsAnnotation() bool {
	return p.HasCause(CauseDerivedTaint) || p.TaintsAnnotationStale
}

// LiftsGate reports whether the gate is removed.
func (p Plan) LiftsGate() bool { return p.hasGateEdit(true) }

// ClosesGate reports whether the gate is added.
func (p Plan) ClosesGate() bool { return p.hasGateEdit(false) }

func (p Plan) hasGateEdit(removed bool) bool {
	return slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Cause == CauseGate && edit.Removed == removed })
}

// LiftGate returns the edit that removes the gate's taint.
func LiftGate(gate policy.Gate) Edits { return TaintEdits(CauseGate, true, gate.Taint()) }

// CloseGate returns the edit that adds the gate's taint. If the Node has the taint already, AddedTaints leaves it out.
func CloseGate(gate policy.Gate) Edits { return TaintEdits(CauseGate, false, gate.Taint()) }

// EditedItems returns the items that a plan restores or corrects, and those that rules for labels change, sorted.
func (p Plan) EditedItems() (items []string) {
	for _, edit := range p.Edits {
		if edit.Cause.isRecordOrRule() {
			items = append(items, edit.Item)
		}
	}
	slices.Sort(items)
	return slices.Compact(items)
}

// RuleOf returns the rule for labels because of which an item is edited; empty: there is none.
func (p Plan) RuleOf(edit Edit) string {
	if edit.Cause == CauseRule || !edit.Removed {
		return p.RuleLabels[edit.Item].Rule
	}
	return p.RuleLabelsBefore[edit.Item].Rule
}

// OnlyFirstItem returns the part of a plan that is about the first of its edited items only. A boot comes after the last of them.
func (p Plan) OnlyFirstItem() Plan {
	if items := p.EditedItems(); len(items) > 0 {
		if p.Boot != "" {
			p.Boot, p.Edits = "", p.filter(func(edit Edit) bool { return edit.Cause != CauseRegistrationTaint })
		}
		p, _ = p.WithoutItems(func(desired DesiredItem) bool { return desired.Item != items[0] })
	}
	return p
}

// ItemsAfter returns what the Node will show of its items once all edits are made. The map is not to be changed: nearly always it is the Node's own.
func (p Plan) ItemsAfter(node *observe.Node) map[string]string {
	if !slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Cause.isRecordOrRule() }) {
		return node.Items
	}
	items := make(map[string]string, len(node.Items)+len(p.Edits))
	maps.Copy(items, node.Items)
	for _, edit := range p.Edits {
		switch {
		case !edit.Cause.isRecordOrRule():
		case edit.Removed:
			delete(items, edit.Item)
		default:
			items[edit.Item] = edit.Value
		}
	}
	return items
}

// TaintsAfter returns the taints of the Node after the change, each key and effect once. If they differ from the taints before, changed is true.
func (p Plan) TaintsAfter(node *observe.Node) (taints []corev1.Taint, changed bool) {
	for _, taint := range node.Taints {
		if p.RemovesTaint(taint) {
			changed = true
			continue
		}
		if value, replaced := p.ReplacementOf(taint); replaced {
			taint, changed = record.Taint(record.TaintKey(taint), value), true
		}
		taints = append(taints, taint)
	}
	added := p.AddedTaints(taints)
	return append(taints, added...), changed || len(added) > 0
}

// RemovesTaint reports whether a taint of the Node is removed: every copy of the gate is, if it is lifted.
func (p Plan) RemovesTaint(taint corev1.Taint) bool {
	return slices.ContainsFunc(p.Edits, func(edit Edit) bool {
		switch {
		case !edit.Removed || edit.Deferred:
			return false
		case edit.Cause == CauseGate:
			return edit.gate().Matches(taint)
		case edit.Cause == CauseDerivedTaint:
			return edit.concerns(taint) && edit.Value == taint.Value
		default:
			return edit.concerns(taint) && edit.Item != policy.Cordon
		}
	})
}

// ReplacementOf returns the value that a taint of the Node gets.
func (p Plan) ReplacementOf(taint corev1.Taint) (value string, replaced bool) {
	for _, edit := range p.Edits {
		if (edit.Cause == CauseRecord || edit.Cause == CauseCorrection) && !edit.Removed && edit.concerns(taint) && edit.Item != policy.Cordon && edit.Value != taint.Value {
			return edit.Value, true
		}
	}
	return "", false
}

// AddedTaints returns the taints that are added to others. No key and effect is added twice.
func (p Plan) AddedTaints(existing []corev1.Taint) (added []corev1.Taint) {
	for _, edit := range p.Edits {
		if edit.Removed || edit.Deferred || !record.IsTaint(edit.Item) || edit.Item == policy.Cordon || edit.Cause == CauseGate && edit.gate().Holds(existing) {
			continue
		}
		if !slices.ContainsFunc(existing, edit.concerns) && !slices.ContainsFunc(added, edit.concerns) {
			added = append(added, edit.Taint())
		}
	}
	return added
}

// EnforcedItems returns the items of the plan that nodekeep would set again if another client undid them. Restored items are among them, although a client
// that removes one is followed as long as the stamp lists the item: if it removes the stamp, too, the item is set again. Registration taints are not among
// them, because they are added only once, nor is a boot, which the machine changes and no client undoes.
func (p Plan) EnforcedItems() (all []DesiredItem) {
	for _, edit := range p.Edits {
		if edit.Cause != CauseRegistrationTaint && !p.isReplacedTaint(edit) {
			all = append(all, edit.DesiredItem)
		}
	}
	if p.TaintsAnnotationStale {
		all = append(all, p.desiredTaintsAnnotation())
	}
	if p.WriteLabelsAnnotation && !p.HasRuleEdits() {
		all = append(all, p.desiredLabelsAnnotation())
	}
	if len(p.RestoredOwners) > 0 {
		all = append(all, p.desiredOwners())
	}
	return all
}

// isReplacedTaint reports whether an edit removes a derived taint of which another value is added.
func (p Plan) isReplacedTaint(edit Edit) bool {
	return edit.Cause == CauseDerivedTaint && edit.Removed &&
		slices.ContainsFunc(p.Edits, func(e Edit) bool { return e.Cause == CauseDerivedTaint && !e.Removed && e.Item == edit.Item })
}

// desiredTaintsAnnotation returns the annotation that lists the derived taints.
func (p Plan) desiredTaintsAnnotation() DesiredItem {
	return DesiredItem{Item: policy.TaintsAnnotation, Value: policy.Shown(p.DerivedTaints)}
}

// desiredLabelsAnnotation returns the annotation that lists the labels of rules.
func (p Plan) desiredLabelsAnnotation() DesiredItem {
	return DesiredItem{Item: policy.LabelsAnnotation, Value: policy.AnnotationContent{Labels: p.RuleLabels}.Annotations(0)[policy.LabelsAnnotation]}
}

// desiredOwners returns the item that stands for the field managers.
func (p Plan) desiredOwners() DesiredItem {
	return DesiredItem{Item: ManagedFieldsItem, Value: strings.Join(slices.Sorted(maps.Keys(p.RestoredOwners)), ", ")}
}

// WithoutItems returns the plan less the desired items that are to be dropped. While any is, the gate stays, since the Node is not as it should be.
func (p Plan) WithoutItems(drop func(DesiredItem) bool) (rest Plan, dropped bool) {
	if len(p.RestoredOwners) > 0 && drop(p.desiredOwners()) { // no gate stays for them
		p.RestoredOwners, p.ManagedFields = nil, nil
	}
	if !slices.ContainsFunc(p.EnforcedItems(), drop) {
		return p, false
	}
	rest = p
	rest.Edits = slices.DeleteFunc(slices.Clone(p.Edits), func(edit Edit) bool {
		return edit.Cause == CauseGate && edit.Removed || edit.Cause != CauseRegistrationTaint && drop(edit.DesiredItem)
	})
	if !rest.HasCause(CauseRecord) && rest.Boot == "" { // registration taints come with the first item, when the gate is lifted, or with a boot
		rest.deleteEdits(func(edit Edit) bool { return edit.Cause == CauseRegistrationTaint })
	}
	droppedTaints := slices.DeleteFunc(slices.Clone(p.WithCause(CauseDerivedTaint)), func(edit Edit) bool { return slices.Contains(rest.Edits, edit) })
	rest.DerivedTaints = derivedAfter(p.DerivedTaints, droppedTaints.Taints(true), droppedTaints.Taints(false))
	rest.TaintsAnnotationStale = p.TaintsAnnotationStale && !drop(p.desiredTaintsAnnotation())
	rest.RuleLabels = p.ruleLabelsAfter(rest)
	rest.WriteLabelsAnnotation = p.WriteLabelsAnnotation && (rest.HasRuleEdits() || !record.SameRuleLabels(rest.RuleLabels, p.RuleLabelsBefore)) && !drop(p.desiredLabelsAnnotation())
	return rest, true
}

// deleteEdits removes edits.
func (p *Plan) deleteEdits(match func(Edit) bool) { p.Edits = slices.DeleteFunc(p.Edits, match) }

// add adds edits, in order.
func (p *Plan) add(edits ...Edit) {
	p.Edits = append(p.Edits, edits...)
	p.sort()
}

// ruleLabelsAfter returns the labels as the annotation lists them once only the rest of the plan is made. Labels that are left out stay listed as before.
func (p Plan) ruleLabelsAfter(rest Plan) map[string]record.RuleLabel {
	labels := maps.Clone(p.RuleLabels)
	for _, edit := range p.RuleEdits() {
		if rest.changedByRule(edit.Item) {
			continue
		}
		delete(labels, edit.Item)
		if label, ok := p.RuleLabelsBefore[edit.Item]; ok {
			labels = withEntry(labels, edit.Item, label)
		}
	}
	return labels
}

// changedByRule reports whether rules for labels change an item.
func (p Plan) changedByRule(item string) bool {
	return slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Item == item && edit.Cause.isRule() })
}

// derivedAfter returns the Node's derived taints once some are added and others removed.
func derivedAfter(derived, added, removed []corev1.Taint) []corev1.Taint {
	taints := slices.DeleteFunc(slices.Clone(derived), func(taint corev1.Taint) bool { return slices.Contains(removed, taint) })
	taints = append(taints, added...)
	record.SortTaints(taints)
	return taints
}
