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

// ManagedFields is the item under which fights and refusals count a change of the Node's field managers.
const ManagedFields = "metadata.managedFields"

// Plan is what nodekeep changes on a Node in one request.
type Plan struct {
	Edits

	LabelsBefore map[string]record.Derived // labels of rules as the annotation lists them before the change
	Labels       map[string]record.Derived // and after it; with those that wait for capture
	Derived      []corev1.Taint            // the derived taints of the Node after the change
	// WriteLabelList says that the annotation of labels has to be written.
	WriteLabelList bool
	// WriteTaintList says that the annotation lists a derived taint that the Node does not show any more. A client that adds this taint later
	// would lose it, since nodekeep would take it for its own.
	WriteTaintList bool

	// Owners are the field managers to give back, by item: those of items that nodekeep has restored and manages since.
	Owners map[string]record.Owners
	// ManagedFields is metadata.managedFields of the Node with these managers. It is nil although there are Owners while the Node has to be read first.
	ManagedFields []metav1.ManagedFieldsEntry

	// ByClient says that the change follows a client's decision: an operator's command, or a declared emergency. No annotation of nodekeep lists it.
	ByClient bool

	SourceRecord record.Record // what is restored and corrected is from it
	Stamp        record.Stamp  // the Node's, before the change

	// Withheld are the items of the record that the Node lacks and does not get now.
	Withheld map[string]policy.Reason
	// NoRoom are labels that rules want and the annotation has no room to list. They wait, and with them the gate.
	NoRoom []string
	// Foreign are taints that rules want and cannot have. The Node has a taint of the same key and effect that is not nodekeep's.
	Foreign []corev1.Taint
	// Rules is what the rules for labels say.
	Rules classify.Result
	// Requeue is after what time to plan again although nothing is observed; 0: never.
	Requeue time.Duration
}

// Complete reports whether the Node has all that the record restores, and nothing stale.
func (p Plan) Complete() bool { return !p.HasCause(Record, Correction) }

// ChangesLabels reports whether rules for labels change an item.
func (p Plan) ChangesLabels() bool { return p.HasCause(Rule, EndedRule, Migration) }

// ByRules returns the edits because of rules for labels.
func (p Plan) ByRules() Edits { return p.WithCause(Rule, EndedRule, Migration) }

// ListsTaints reports whether the annotation of derived taints has to be written.
func (p Plan) ListsTaints() bool { return p.HasCause(Derivation) || p.WriteTaintList }

// LiftsGate reports whether the gate is removed.
func (p Plan) LiftsGate() bool { return p.hasGateEdit(true) }

// ClosesGate reports whether the gate is added.
func (p Plan) ClosesGate() bool { return p.hasGateEdit(false) }

func (p Plan) hasGateEdit(removed bool) bool {
	return slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Cause == Gate && edit.Removed == removed })
}

// Lift returns the edit that removes the gate's taint.
func Lift(gate policy.Gate) Edits { return SetTaints(Gate, true, gate.Taint()) }

// Close returns the edit that adds the gate's taint. If the Node has the taint already, AddedTaints leaves it out.
func Close(gate policy.Gate) Edits { return SetTaints(Gate, false, gate.Taint()) }

// Keys returns the items that a plan restores or corrects, and those that rules for labels change, sorted.
func (p Plan) Keys() (keys []string) {
	for _, edit := range p.Edits {
		if edit.Cause.ofItem() {
			keys = append(keys, edit.Item)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// RuleOf returns the rule for labels because of which an item is edited; empty: there is none.
func (p Plan) RuleOf(edit Edit) string {
	if edit.Cause == Rule || !edit.Removed {
		return p.Labels[edit.Item].Rule
	}
	return p.LabelsBefore[edit.Item].Rule
}

// OnlyFirstKey returns the part of a plan that is about the first of its keys only.
func (p Plan) OnlyFirstKey() Plan {
	if keys := p.Keys(); len(keys) > 0 {
		p, _ = p.WithoutSettings(func(set Setting) bool { return set.Item != keys[0] })
	}
	return p
}

// ItemsOn returns what the Node will show of its items once all edits are made. The map is not to be changed: nearly always it is the Node's own.
func (p Plan) ItemsOn(node *observe.Node) map[string]string {
	if !slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Cause.ofItem() }) {
		return node.Items
	}
	items := make(map[string]string, len(node.Items)+len(p.Edits))
	maps.Copy(items, node.Items)
	for _, edit := range p.Edits {
		switch {
		case !edit.Cause.ofItem():
		case edit.Removed:
			delete(items, edit.Item)
		default:
			items[edit.Item] = edit.Value
		}
	}
	return items
}

// TaintsOn returns the taints of the Node after the change, each key and effect once. If they differ from the taints before, changed is true.
func (p Plan) TaintsOn(node *observe.Node) (taints []corev1.Taint, changed bool) {
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
		case !edit.Removed || edit.Later:
			return false
		case edit.Cause == Gate:
			return edit.gate().Matches(taint)
		case edit.Cause == Derivation:
			return edit.concerns(taint) && edit.Value == taint.Value
		default:
			return edit.concerns(taint) && edit.Item != policy.Cordon
		}
	})
}

// ReplacementOf returns the value that a taint of the Node gets.
func (p Plan) ReplacementOf(taint corev1.Taint) (value string, replaced bool) {
	for _, edit := range p.Edits {
		if (edit.Cause == Record || edit.Cause == Correction) && !edit.Removed && edit.concerns(taint) && edit.Item != policy.Cordon && edit.Value != taint.Value {
			return edit.Value, true
		}
	}
	return "", false
}

// AddedTaints returns the taints that are added to others. No key and effect is added twice.
func (p Plan) AddedTaints(existing []corev1.Taint) (added []corev1.Taint) {
	for _, edit := range p.Edits {
		if edit.Removed || edit.Later || !record.IsTaint(edit.Item) || edit.Item == policy.Cordon || edit.Cause == Gate && edit.gate().Holds(existing) {
			continue
		}
		if !slices.ContainsFunc(existing, edit.concerns) && !slices.ContainsFunc(added, edit.concerns) {
			added = append(added, edit.Taint())
		}
	}
	return added
}

// Settings returns what nodekeep would set again if another client undid it. Restored items are among them: the stamp lists them, so a client that
// removes only the item is followed, but one that also removes the stamp gets the item again. Registration taints are not among them: they are added once.
func (p Plan) Settings() (all []Setting) {
	for _, edit := range p.Edits {
		if edit.Cause != Registration && !p.replaced(edit) {
			all = append(all, edit.Setting)
		}
	}
	if p.WriteTaintList {
		all = append(all, p.taintListing())
	}
	if p.WriteLabelList && !p.ChangesLabels() {
		all = append(all, p.labelListing())
	}
	if len(p.Owners) > 0 {
		all = append(all, p.ownerSetting())
	}
	return all
}

// replaced reports whether an edit removes a derived taint of which another value is added.
func (p Plan) replaced(edit Edit) bool {
	return edit.Cause == Derivation && edit.Removed &&
		slices.ContainsFunc(p.Edits, func(e Edit) bool { return e.Cause == Derivation && !e.Removed && e.Item == edit.Item })
}

// taintListing is the setting for the annotation that lists the derived taints.
func (p Plan) taintListing() Setting {
	return Setting{Item: policy.TaintsAnnotation, Value: policy.Shown(p.Derived)}
}

// labelListing is the setting for the annotation that lists the labels of rules.
func (p Plan) labelListing() Setting {
	return Setting{Item: policy.LabelsAnnotation, Value: policy.AnnotationContent{Labels: p.Labels}.Annotations(0)[policy.LabelsAnnotation]}
}

// ownerSetting is the setting for the field managers.
func (p Plan) ownerSetting() Setting {
	return Setting{Item: ManagedFields, Value: strings.Join(slices.Sorted(maps.Keys(p.Owners)), ", ")}
}

// WithoutSettings returns the plan less the settings that are to be dropped. While any is, the gate stays, since the Node is not as it should be.
func (p Plan) WithoutSettings(drop func(Setting) bool) (rest Plan, dropped bool) {
	if len(p.Owners) > 0 && drop(p.ownerSetting()) { // no gate stays for them
		p.Owners, p.ManagedFields = nil, nil
	}
	if !slices.ContainsFunc(p.Settings(), drop) {
		return p, false
	}
	rest = p
	rest.Edits = slices.DeleteFunc(slices.Clone(p.Edits), func(edit Edit) bool {
		return edit.Cause == Gate && edit.Removed || edit.Cause != Registration && drop(edit.Setting)
	})
	if !rest.HasCause(Record) { // registration taints come with the first item or when the gate is lifted
		rest.deleteEdits(func(edit Edit) bool { return edit.Cause == Registration })
	}
	droppedTaints := slices.DeleteFunc(slices.Clone(p.WithCause(Derivation)), func(edit Edit) bool { return slices.Contains(rest.Edits, edit) })
	rest.Derived = derivedAfter(p.Derived, droppedTaints.Taints(true), droppedTaints.Taints(false))
	rest.WriteTaintList = p.WriteTaintList && !drop(p.taintListing())
	rest.Labels = p.relisted(rest)
	rest.WriteLabelList = p.WriteLabelList && (rest.ChangesLabels() || !record.SameDerived(rest.Labels, p.LabelsBefore)) && !drop(p.labelListing())
	return rest, true
}

// deleteEdits removes edits.
func (p *Plan) deleteEdits(match func(Edit) bool) { p.Edits = slices.DeleteFunc(p.Edits, match) }

// add adds edits, in order.
func (p *Plan) add(edits ...Edit) {
	p.Edits = append(p.Edits, edits...)
	p.sort()
}

// relisted returns the labels as the annotation lists them once only the rest of the plan is made. Labels that are left out stay listed as before.
func (p Plan) relisted(rest Plan) map[string]record.Derived {
	labels := maps.Clone(p.Labels)
	for _, edit := range p.ByRules() {
		if rest.ruled(edit.Item) {
			continue
		}
		delete(labels, edit.Item)
		if label, ok := p.LabelsBefore[edit.Item]; ok {
			labels = withEntry(labels, edit.Item, label)
		}
	}
	return labels
}

// ruled reports whether rules for labels change an item.
func (p Plan) ruled(item string) bool {
	return slices.ContainsFunc(p.Edits, func(edit Edit) bool { return edit.Item == item && edit.Cause.byRule() })
}

// derivedAfter returns the Node's derived taints once some are added and others removed.
func derivedAfter(derived, added, removed []corev1.Taint) []corev1.Taint {
	taints := slices.DeleteFunc(slices.Clone(derived), func(taint corev1.Taint) bool { return slices.Contains(removed, taint) })
	taints = append(taints, added...)
	record.SortTaints(taints)
	return taints
}
