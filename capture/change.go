package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Change is what nodekeep changes on a Node in one PATCH.
type Change struct {
	Add            map[string]string // items to add
	Correct        map[string]string // items to set to another value, restored from a record that was stale
	Remove         []string          // items to remove, restored from a record that was stale
	AddTaints      []corev1.Taint    // taints that rules want
	RemoveTaints   []corev1.Taint    // taints that were derived from labels, and that rules no longer want
	RegisterTaints []corev1.Taint    // taints that a new Node gets once
	LiftGate       bool
	// WriteTaintList says that the annotation lists a derived taint that the Node does not show any more. A client that adds this taint later
	// would lose it, since nodekeep would take it for its own.
	WriteTaintList bool

	RuleSets       map[string]string         // labels that rules want; and items that no rule decides any more, with the value that a client gave them
	RuleRemoves    []string                  // labels that rules have set and no longer want; and items that rules remove
	Listed         map[string]record.Derived // labels of rules as the annotation lists them before the change
	Labels         map[string]record.Derived // and after it
	WriteLabelList bool                      // the annotation has to be written
	NoRoom         []string                  // labels that rules want and the annotation has no room to list: they wait, and with them the gate

	Owners        map[string]record.Owners    // of what nodekeep has restored and owns
	ManagedFields []metav1.ManagedFieldsEntry // with these owners; nil: the Node has to be read first

	// ByClient says that an operator's command makes the change. The stamp does not list it: it is a client's decision.
	ByClient bool

	From    record.Record  // what is added and corrected is from it
	Stamp   record.Stamp   // the Node's, before the change
	Derived []corev1.Taint // the Node's derived taints, after the change
}

// complete reports whether the Node has all that the record restores, and nothing stale.
func (c Change) complete() bool { return len(c.Add)+len(c.Correct)+len(c.Remove) == 0 }

func (c Change) step() Step {
	switch {
	case !c.complete() || len(c.RegisterTaints) > 0:
		return Complete
	case c.LiftGate && (len(c.AddTaints)+len(c.RemoveTaints) > 0 || c.changesLabels()):
		return Complete
	case c.LiftGate:
		return Lift
	case c.lists() || c.changesLabels() || c.WriteLabelList:
		return FollowRules
	case len(c.Owners) > 0:
		return HandOver
	default:
		return Nothing
	}
}

// lists reports whether the annotation of derived taints has to be written.
func (c Change) lists() bool { return len(c.AddTaints)+len(c.RemoveTaints) > 0 || c.WriteTaintList }

// keys are the items that a change adds, corrects or removes, and the labels that rules change. Their order is stable.
func (c Change) keys() []string {
	return slices.Sorted(slices.Values(slices.Concat(
		slices.Collect(maps.Keys(c.Add)), slices.Collect(maps.Keys(c.Correct)), c.Remove, slices.Collect(maps.Keys(c.RuleSets)), c.RuleRemoves)))
}

// first is the part of a change that is about the first of its keys only.
func (c Change) first(gate policy.Gate) Change {
	if keys := c.keys(); len(keys) > 0 {
		c, _ = c.without(func(set setting) bool { return set.item != keys[0] }, gate)
	}
	return c
}

// itemsOn is what the Node will show once the change is made. The map is not to be changed: nearly always it is the Node's own.
func (c Change) itemsOn(node *observe.Node) map[string]string {
	if c.complete() && !c.changesLabels() {
		return node.Items
	}
	items := make(map[string]string, len(node.Items)+len(c.Add))
	maps.Copy(items, node.Items)
	maps.Copy(items, c.Add)
	maps.Copy(items, c.Correct)
	maps.Copy(items, c.RuleSets)
	for _, key := range slices.Concat(c.Remove, c.RuleRemoves) {
		delete(items, key)
	}
	return items
}

// taintsOn are the taints of the Node after the change, each key and effect once. If they differ from the taints before, changed is true.
func (c Change) taintsOn(node *observe.Node, gate policy.Gate) (taints []corev1.Taint, changed bool) {
	for _, taint := range node.Taints {
		key := record.TaintKey(taint)
		if c.LiftGate && gate.Is(taint) || slices.Contains(c.RemoveTaints, undated(taint)) || key != policy.Cordon && slices.Contains(c.Remove, key) || slices.Contains(c.RuleRemoves, key) {
			changed = true
			continue
		}
		if value, correct := c.Correct[key]; correct && key != policy.Cordon {
			taint, changed = record.Taint(key, value), true
		}
		taints = append(taints, taint)
	}
	_, given, _ := policy.SplitItems(c.Add)
	_, restored, _ := policy.SplitItems(c.RuleSets)
	for _, more := range [][]corev1.Taint{given, restored, c.AddTaints, c.RegisterTaints} {
		free := policy.FreeOf(more, taints)
		taints, changed = append(taints, free...), changed || len(free) > 0
	}
	return taints, changed
}

// setting is what nodekeep sets an item to.
type setting struct {
	item, value string
	removed     bool
}

// shownBy reports whether a Node with these items is as the setting wants it.
func (s setting) shownBy(items map[string]string) bool {
	value, shown := items[s.item]
	if s.removed {
		return !shown
	}
	return shown && value == s.value
}

// settings is what a change sets on a Node and would set again if another client undid it. Restored items are included. The stamp lists
// them, so nodekeep follows a client that removes only the item. It does not follow a client that also removes the stamp. Registration
// taints are not included: they are added once.
func (c Change) settings(gate policy.Gate) (all []setting) {
	set := func(items map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(items)) {
			all = append(all, setting{item: key, value: items[key]})
		}
	}
	remove := func(keys []string) {
		for _, key := range keys {
			all = append(all, setting{item: key, removed: true})
		}
	}
	replaced := map[string]bool{}
	for _, taint := range c.AddTaints {
		all = append(all, settingOf(taint, false))
		replaced[record.TaintKey(taint)] = true
	}
	for _, taint := range c.RemoveTaints {
		if !replaced[record.TaintKey(taint)] {
			all = append(all, settingOf(taint, true))
		}
	}
	set(c.Add)
	set(c.Correct)
	remove(c.Remove)
	if c.LiftGate {
		all = append(all, settingOf(gate.Taint(), true))
	}
	if c.WriteTaintList {
		all = append(all, c.taintListing())
	}
	set(c.RuleSets)
	remove(c.RuleRemoves)
	if c.WriteLabelList && !c.changesLabels() {
		all = append(all, c.labelListing())
	}
	if len(c.Owners) > 0 {
		all = append(all, c.ownerSetting())
	}
	return all
}

// taintListing is that the annotation lists the derived taints.
func (c Change) taintListing() setting {
	return setting{item: policy.TaintsAnnotation, value: policy.Shown(c.Derived)}
}

// String names the item.
func (s setting) String() string {
	if s.item == managedFields {
		return s.item
	}
	if s.item == policy.TaintsAnnotation || s.item == policy.LabelsAnnotation {
		return "annotation " + s.item
	}
	return kindOf(s.item) + " " + s.item
}

func settingOf(taint corev1.Taint, removed bool) setting {
	return setting{item: record.TaintKey(taint), value: taint.Value, removed: removed}
}

// without is the change less the settings that are to be dropped. While any is, the gate stays, since the Node is not as it should be.
func (c Change) without(drop func(setting) bool, gate policy.Gate) (rest Change, dropped bool) {
	if len(c.Owners) > 0 && drop(c.ownerSetting()) { // no gate stays for them
		c.Owners, c.ManagedFields = nil, nil
	}
	if !slices.ContainsFunc(c.settings(gate), drop) {
		return c, false
	}
	items := func(of map[string]string) map[string]string {
		of = maps.Clone(of)
		maps.DeleteFunc(of, func(key, value string) bool { return drop(setting{item: key, value: value}) })
		return of
	}
	keys := func(of []string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(key string) bool { return drop(setting{item: key, removed: true}) })
	}
	taints := func(of []corev1.Taint, removed bool) (kept, left []corev1.Taint) {
		for _, taint := range of {
			if drop(settingOf(taint, removed)) {
				left = append(left, taint)
			} else {
				kept = append(kept, taint)
			}
		}
		return kept, left
	}
	rest = c
	rest.Add, rest.Correct, rest.Remove = items(c.Add), items(c.Correct), keys(c.Remove)
	if len(rest.Add) == 0 {
		rest.RegisterTaints = nil // it comes with the first labels or when the gate is lifted
	}
	rest.LiftGate = false

	var notAdded, notRemoved []corev1.Taint
	rest.AddTaints, notAdded = taints(c.AddTaints, false)
	rest.RemoveTaints, notRemoved = taints(c.RemoveTaints, true)
	rest.Derived = derivedAfter(c.Derived, notRemoved, notAdded)
	rest.WriteTaintList = c.WriteTaintList && !drop(c.taintListing())

	rest.RuleSets, rest.RuleRemoves = items(c.RuleSets), keys(c.RuleRemoves)
	rest.Labels = c.relisted(rest)
	rest.WriteLabelList = c.WriteLabelList && (rest.changesLabels() || !record.SameDerived(rest.Labels, c.Listed)) && !drop(c.labelListing())
	return rest, true
}
