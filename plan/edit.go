package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Cause is why an item of a Node is edited.
type Cause int

// The causes. Those before CauseDerivedTaint edit labels, taints, annotations or the cordon, whose values a record or a rule for labels decides.
const (
	CauseRecord            Cause = iota // the record has it, and the Node lacks it
	CauseCorrection                     // it was restored from a record that was stale
	CauseRule                           // a rule sets or removes it
	CauseEndedRule                      // a rule has set or removed it, and none does any more
	CauseMigration                      // a migration has renamed it
	CauseDerivedTaint                   // a taint that follows from labels by a rule, or no longer does
	CauseRegistrationTaint              // a taint that a new Node gets once, or again after a reboot
	CauseGate                           // the gate is closed or lifted
)

// DesiredItem is what an item of a Node is set to. Items are labels, taints, the cordon and annotations, by the keys of package record.
type DesiredItem struct {
	Item    string
	Value   string
	Removed bool
}

// SatisfiedBy reports whether a Node with these items is as the desired item says.
func (d DesiredItem) SatisfiedBy(items map[string]string) bool {
	value, shown := items[d.Item]
	if d.Removed {
		return !shown
	}
	return shown && value == d.Value
}

// Edit is one item that is set or removed, and why.
type Edit struct {
	DesiredItem
	Cause Cause
	// Deferred says that the item is not set in the CREATE of the Node: no kubelet may set it on its own Node, or labels.defer of the policy names it.
	// Capture sets it, and the gate stays until then.
	Deferred bool
}

// Taint returns the taint that an edit adds or removes.
func (e Edit) Taint() corev1.Taint { return record.Taint(e.Item, e.Value) }

// isRecordOrRule reports whether the cause is about an item of the record or of a rule for labels.
func (c Cause) isRecordOrRule() bool { return c < CauseDerivedTaint }

// concerns reports whether an edit is about the key and effect of a taint.
func (e Edit) concerns(taint corev1.Taint) bool {
	t := e.Taint()
	return record.IsTaint(e.Item) && t.Key == taint.Key && t.Effect == taint.Effect
}

// gate returns the gate that an edit closes or lifts.
func (e Edit) gate() policy.Gate { return policy.Gate(e.Taint().Key) }

// isRule reports whether a rule for labels is the cause.
func (c Cause) isRule() bool { return c == CauseRule || c == CauseEndedRule || c == CauseMigration }

// Edits are the edits of a plan. No two set the same item for the same cause.
type Edits []Edit

// TaintEdits returns edits that add taints, or remove them.
func TaintEdits(cause Cause, removed bool, taints ...corev1.Taint) (edits Edits) {
	for _, taint := range taints {
		edits = append(edits, Edit{DesiredItem{record.TaintKey(taint), taint.Value, removed}, cause, false})
	}
	return edits
}

// SetItems returns edits that set items, in the order of their keys.
func SetItems(cause Cause, items map[string]string) Edits {
	edits := make(Edits, 0, len(items))
	for item, value := range items {
		edits = append(edits, Edit{DesiredItem: DesiredItem{Item: item, Value: value}, Cause: cause})
	}
	edits.sort()
	return edits
}

// RemoveItems returns edits that remove items.
func RemoveItems(cause Cause, items ...string) (edits Edits) {
	for _, item := range items {
		edits = append(edits, Edit{DesiredItem: DesiredItem{Item: item, Removed: true}, Cause: cause})
	}
	return edits
}

// HasCause reports whether an edit has one of these causes.
func (e Edits) HasCause(causes ...Cause) bool {
	return slices.ContainsFunc(e, func(edit Edit) bool { return slices.Contains(causes, edit.Cause) })
}

// WithCause returns the edits with one of these causes.
func (e Edits) WithCause(causes ...Cause) Edits {
	return e.filter(func(edit Edit) bool { return slices.Contains(causes, edit.Cause) })
}

// Immediate returns the edits of this request; the others wait for capture.
func (e Edits) Immediate() Edits { return e.filter(func(edit Edit) bool { return !edit.Deferred }) }

// Deferred returns the edits that wait for capture.
func (e Edits) Deferred() Edits { return e.filter(func(edit Edit) bool { return edit.Deferred }) }

// filter returns the edits that fulfil a condition: the list itself if all do.
func (e Edits) filter(wanted func(Edit) bool) (filtered Edits) {
	count := 0
	for _, edit := range e {
		if wanted(edit) {
			count++
		}
	}
	switch count {
	case 0:
		return nil
	case len(e):
		return slices.Clip(e)
	}
	filtered = make(Edits, 0, count)
	for _, edit := range e {
		if wanted(edit) {
			filtered = append(filtered, edit)
		}
	}
	return filtered
}

// AnyDeferred reports whether an edit waits for capture.
func (e Edits) AnyDeferred() bool {
	return slices.ContainsFunc(e, func(edit Edit) bool { return edit.Deferred })
}

// Values returns what is set, by item; nil: nothing.
func (e Edits) Values() (values map[string]string) {
	for _, edit := range e {
		if edit.Removed {
			continue
		}
		if values == nil {
			values = make(map[string]string, len(e))
		}
		values[edit.Item] = edit.Value
	}
	return values
}

// Removed returns the items that are removed, in the order of the edits.
func (e Edits) Removed() (items []string) {
	for _, edit := range e {
		if edit.Removed {
			items = append(items, edit.Item)
		}
	}
	return items
}

// Taints returns the taints that are added; or, if removed, those that are removed.
func (e Edits) Taints(removed bool) (taints []corev1.Taint) {
	for _, edit := range e {
		if edit.Removed == removed {
			taints = append(taints, edit.Taint())
		}
	}
	return taints
}

// sort orders edits by their causes, and those of a cause by item: a PATCH has stable bytes.
func (e Edits) sort() {
	slices.SortStableFunc(e, func(a, b Edit) int { return cmp.Or(cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Item, b.Item)) })
}

// withEntry returns the map with one more value. As append does, it makes a map that is nil.
func withEntry[V any](items map[string]V, key string, value V) map[string]V {
	if items == nil {
		items = map[string]V{}
	}
	items[key] = value
	return items
}
