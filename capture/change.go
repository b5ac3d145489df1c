package capture

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	return all
}

// taintListing is that the annotation lists the derived taints.
func (c Change) taintListing() setting {
	return setting{item: policy.TaintsAnnotation, value: policy.Shown(c.Derived)}
}

// String names the item.
func (s setting) String() string {
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

// nodePatch is a JSON merge patch of a Node (RFC 7386). With uid and resourceVersion, it applies only to the object that the change was
// decided for. Another object of that name answers 422, a newer state of it 409.
type nodePatch struct {
	Metadata struct {
		UID             string             `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Labels          map[string]*string `json:"labels,omitempty"`
		Annotations     map[string]*string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec,omitempty"` // null removes a field
}

// PatchFor is the body of a merge patch that makes a change on exactly that state of a Node.
func PatchFor(node *observe.Node, change Change, gate policy.Gate) ([]byte, error) {
	var patch nodePatch
	patch.Metadata.UID = string(node.UID)
	patch.Metadata.ResourceVersion = node.ResourceVersion
	patch.Metadata.Labels = change.labelsPatch()
	patch.Metadata.Annotations = change.annotationsPatch(node, gate)
	patch.Spec = map[string]any{}
	if taints, changed := change.taintsOn(node, gate); changed {
		patch.Spec["taints"] = taints // the whole list, which is safe only together with the resourceVersion
	}
	_, was := node.Items[policy.Cordon]
	if _, is := change.itemsOn(node)[policy.Cordon]; is && !was {
		patch.Spec["unschedulable"] = true
	} else if was && !is {
		patch.Spec["unschedulable"] = nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", node.Name, err)
	}
	return body, nil
}

func (c Change) labelsPatch() map[string]*string {
	labels := map[string]*string{}
	for _, items := range []map[string]string{c.Add, c.Correct, c.RuleSets} {
		for key, value := range items {
			labels[key] = &value
		}
	}
	for _, key := range slices.Concat(c.Remove, c.RuleRemoves) {
		labels[key] = nil
	}
	maps.DeleteFunc(labels, func(key string, _ *string) bool { return !record.IsLabel(key) })
	return labels
}

// given is what is added from the record and was decided on another object. What a client decided on this one is put back as the client's.
func (c Change) given(on types.UID) map[string]string {
	given := maps.Clone(c.Add)
	maps.DeleteFunc(given, func(key, _ string) bool {
		e, known := c.From.Entry(key)
		return known && c.From.DecidedOn(e) == on
	})
	return given
}

// opened are the keys of the taints that a client can have read behind the gate. It is nil where nodekeep has not removed the gate.
func (c Change) opened(node *observe.Node, gate policy.Gate) []string {
	switch {
	case c.LiftGate:
		keys := []string{}
		for _, taint := range gate.Without(node.Taints) {
			keys = append(keys, record.TaintKey(taint))
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	case gate.On(node.Taints): // this PATCH corrects what an older list lacked: what the Node lacks after that, a client removes
		return nil
	default:
		return c.Stamp.Opened
	}
}

// annotationsPatch writes the annotations among the items, what nodekeep has set by then, and which taints it has derived.
func (c Change) annotationsPatch(node *observe.Node, gate policy.Gate) map[string]*string {
	annotations, others := map[string]*string{}, node.AnnotationBytes
	for _, items := range []map[string]string{c.Add, c.Correct} {
		for annotation, value := range record.SplitAnnotations(items) {
			annotations[annotation] = &value
			others += len(annotation) + len(value)
		}
	}
	for _, key := range c.Remove {
		if annotation, ok := record.Annotation(key); ok {
			annotations[annotation] = nil
		}
	}
	if c.ByClient {
		return annotations
	}
	removed := slices.Concat(c.Remove, c.RuleRemoves) // if the stamp listed it, its absence would count as a client's removal
	after := c.Stamp.With(c.given(node.UID), c.From, node.Version).With(c.Correct, c.From, node.Version).Without(removed)
	after.Opened = c.opened(node, gate)
	own := policy.Own{Stamp: after, Taints: c.Derived, Labels: c.listedOn(node)}.Annotations(others)
	for _, one := range []struct {
		key    string
		writes bool
	}{
		{policy.StampAnnotation, own[policy.StampAnnotation] != "" && (!c.complete() || len(c.RegisterTaints) > 0 || c.LiftGate || slices.ContainsFunc(removed, c.Stamp.Lists))},
		{policy.TaintsAnnotation, c.lists()}, {policy.LabelsAnnotation, c.WriteLabelList},
	} {
		if !one.writes {
			continue
		}
		annotations[one.key] = nil // nothing to list, or no room
		if value, is := own[one.key]; is {
			annotations[one.key] = &value
		}
	}
	return annotations
}
