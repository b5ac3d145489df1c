package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Change is what nodekeep changes on a Node in one PATCH.
type Change struct {
	Give     map[string]string // items to add
	Correct  map[string]string // items to set to another value, restored from a record that was stale
	Remove   []string          // items to remove, restored from a record that was stale
	Put      []corev1.Taint    // taints that rules want
	Take     []corev1.Taint    // taints that were derived from labels, and that rules want no more
	Register []corev1.Taint    // taints that a new Node gets once
	LiftGate bool
	// Unlist says that the annotation lists a derived taint that the Node does not show any more. A client that adds this taint later
	// would lose it, since nodekeep would take it for its own.
	Unlist bool

	// ByClient says that an operator's command makes the change. The stamp does not list it: it is a client's decision.
	ByClient bool

	Stamp   record.Stamp   // the Node's, before the change
	Derived []corev1.Taint // the Node's derived taints, after the change
}

// complete reports whether the Node has all that the record restores, and nothing stale.
func (c Change) complete() bool { return len(c.Give)+len(c.Correct)+len(c.Remove) == 0 }

func (c Change) step() Step {
	switch {
	case !c.complete() || len(c.Register) > 0:
		return Complete
	case c.LiftGate && len(c.Put)+len(c.Take) > 0:
		return Complete
	case c.LiftGate:
		return Lift
	case c.lists():
		return FollowRules
	default:
		return Nothing
	}
}

// lists reports whether the annotation of derived taints has to be written.
func (c Change) lists() bool { return len(c.Put)+len(c.Take) > 0 || c.Unlist }

// leaveOut takes away what the API server has refused on this object before, and reports whether there was any.
func (c *Change) leaveOut(refused map[string]bool) (some bool) {
	before := len(c.keys())
	for _, items := range []map[string]string{c.Give, c.Correct} {
		maps.DeleteFunc(items, func(key, _ string) bool { return refused[key] })
	}
	c.Remove = slices.DeleteFunc(c.Remove, func(key string) bool { return refused[key] })
	return len(c.keys()) < before
}

// keys are the items that a change gives, corrects or removes, in a stable order.
func (c Change) keys() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(c.Give)), slices.Collect(maps.Keys(c.Correct)), c.Remove)))
}

// first is the part of a change that is about the first of its keys only.
func (c Change) first() Change {
	if len(c.keys()) == 0 {
		return c
	}
	key := c.keys()[0]
	one := Change{Stamp: c.Stamp}
	if value, give := c.Give[key]; give {
		one.Give, one.Register = map[string]string{key: value}, c.Register
	} else if value, correct := c.Correct[key]; correct {
		one.Correct = map[string]string{key: value}
	} else {
		one.Remove = []string{key}
	}
	return one
}

// itemsOn is what the Node will show once the change is made.
func (c Change) itemsOn(node *observe.Node) map[string]string {
	items := make(map[string]string, len(node.Items)+len(c.Give))
	maps.Copy(items, node.Items)
	maps.Copy(items, c.Give)
	maps.Copy(items, c.Correct)
	for _, key := range c.Remove {
		delete(items, key)
	}
	return items
}

func (c Change) givenTaints() []corev1.Taint {
	_, taints := record.Split(c.Give)
	return taints
}

// taintsOn are the taints of the Node once the change is made, each key and effect once; changed says whether they are others than before.
func (c Change) taintsOn(node *observe.Node, gate policy.Gate) (taints []corev1.Taint, changed bool) {
	for _, taint := range node.Taints {
		key := record.TaintKey(taint)
		if c.LiftGate && gate.Is(taint) || slices.Contains(c.Take, undated(taint)) || slices.Contains(c.Remove, key) {
			changed = true
			continue
		}
		if value, correct := c.Correct[key]; correct {
			taint, changed = record.Taint(key, value), true
		}
		taints = append(taints, taint)
	}
	for _, more := range [][]corev1.Taint{c.givenTaints(), c.Put, c.Register} {
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

// settings is what a change sets on a Node and would set again if another client undid it. Items that it gives are among that: the stamp
// lists them, so nodekeep follows a client that removes them, but not one that removes the stamp as well. Registration taints are not:
// they are added once.
func (c Change) settings(gate policy.Gate) (all []setting) {
	replaced := map[string]bool{}
	for _, taint := range c.Put {
		all = append(all, settingOf(taint, false))
		replaced[record.TaintKey(taint)] = true
	}
	for _, taint := range c.Take {
		if !replaced[record.TaintKey(taint)] {
			all = append(all, settingOf(taint, true))
		}
	}
	for _, items := range []map[string]string{c.Give, c.Correct} {
		for _, key := range slices.Sorted(maps.Keys(items)) {
			all = append(all, setting{item: key, value: items[key]})
		}
	}
	for _, key := range c.Remove {
		all = append(all, setting{item: key, removed: true})
	}
	if c.LiftGate {
		all = append(all, settingOf(gate.Taint(), true))
	}
	if c.Unlist {
		all = append(all, c.listing())
	}
	return all
}

// listing is that the annotation lists the derived taints.
func (c Change) listing() setting {
	return setting{item: policy.TaintsAnnotation, value: policy.Shown(c.Derived)}
}

// String names the item.
func (s setting) String() string {
	if s.item == policy.TaintsAnnotation {
		return "annotation " + s.item
	}
	return kindOf(s.item) + " " + s.item
}

func settingOf(taint corev1.Taint, removed bool) setting {
	return setting{item: record.TaintKey(taint), value: taint.Value, removed: removed}
}

// less is the change without what is paused. While anything is paused the gate stays, since the Node is not as it should be.
func (c Change) less(paused map[setting]bool) Change {
	if len(paused) == 0 {
		return c
	}
	put := func(taint corev1.Taint) bool { return paused[settingOf(taint, false)] }
	take := func(taint corev1.Taint) bool { return paused[settingOf(taint, true)] }
	rest := c
	rest.Put, rest.Take = slices.DeleteFunc(slices.Clone(c.Put), put), slices.DeleteFunc(slices.Clone(c.Take), take)
	rest.Derived = slices.DeleteFunc(slices.Clone(c.Derived), func(taint corev1.Taint) bool { return slices.Contains(c.Put, taint) && put(taint) })
	for _, taint := range c.Take {
		if take(taint) {
			rest.Derived = append(rest.Derived, taint)
		}
	}
	record.SortTaints(rest.Derived)
	rest.Give, rest.Correct = maps.Clone(c.Give), maps.Clone(c.Correct)
	for _, items := range []map[string]string{rest.Give, rest.Correct} {
		maps.DeleteFunc(items, func(key, value string) bool { return paused[setting{item: key, value: value}] })
	}
	rest.Remove = slices.DeleteFunc(slices.Clone(c.Remove), func(key string) bool { return paused[setting{item: key, removed: true}] })
	rest.LiftGate = false
	rest.Unlist = c.Unlist && !paused[c.listing()]
	if len(rest.Give) == 0 {
		rest.Register = nil // it comes with the first labels or when the gate is lifted
	}
	return rest
}
