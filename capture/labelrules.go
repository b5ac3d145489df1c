package capture

import (
	"maps"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// followLabelRules completes a change by the labels that rules set on a Node after the change. The parameter prev is the record as it was
// read, and r is that record with this observation merged. If the API server has refused one of the labels on this object, refused is true.
func (c *Change) followLabelRules(prev, r record.Record, node *observe.Node, in Circumstances) (result classify.Result, refused bool) {
	kept := len(node.ListedLabels()) > 0 || in.Policy.Held() && len(prev.Derived) > 0
	if in.Policy.LabelRules().Empty() && !kept { // migrations are rules, too
		return classify.Result{}, false
	}
	own := withoutMarks(node.DerivedLabels(r, in.Policy, in.Guarded))
	result = c.classify(prev, r, node, own, in)
	maps.DeleteFunc(result.Labels, func(key string, label record.Derived) bool {
		refused = refused || in.Refused[key] && !label.Absent
		return in.Refused[key]
	})
	shown := shownOf(own, node.Items)
	for key, label := range shown {
		if in.Refused[key] {
			result.Labels = with(result.Labels, key, label)
		}
	}

	c.Listed, c.Labels = own, result.Labels
	if !policy.RoomFor(c.Labels, node.AnnotationBytes) { // what is not listed would count as an operator's
		c.NoRoom = notOn(c.Labels, node.Items)
		c.Labels = shown // a kubelet that fills the annotations removes nothing
	}
	c.setByRules(node)
	c.undoEndedRules(r, node, in)
	c.RuleRemoves = append(c.RuleRemoves, renamedOn(node, r, in)...)
	slices.Sort(c.RuleRemoves)
	c.WriteLabelList = !record.SameDerived(c.Labels, node.ListedLabels()) || slices.ContainsFunc(slices.Collect(maps.Keys(c.Labels)), c.sets)
	return result, refused
}

// classify is what the rules say of a Node after the change. The labels in own are those that rules have set on it.
func (c *Change) classify(prev, r record.Record, node *observe.Node, own map[string]record.Derived, in Circumstances) (result classify.Result) {
	facts := in.published(node.Name, node.Facts(c.labelsOfOthers(r, node, own, in.Policy), in.Policy.LabelRules(), in.Now))
	if in.Inventory != nil {
		facts.Inventory = in.Inventory(node)
	}
	last := lastDerived(prev, node, own)
	if in.Why == nil {
		result = in.Policy.Classify(facts, last, in.Now)
	} else {
		result, *in.Why = in.Policy.LabelRules().Explain(facts, last, in.Now)
	}
	maps.DeleteFunc(result.Labels, func(key string, label record.Derived) bool {
		_, blocked := result.Blocked[key]
		return label.Absent && blocked && shows(node, key)
	})
	if in.Policy.Held() {
		result.Labels = result.OnlyAdd(keptWhileHeld(own, last, node.Items), last, func(item string) bool {
			_, restored := c.Add[item]
			return restored || shows(node, item)
		})
	}
	return result
}

// labelsOfOthers are the labels that the Node will have. Labels that rules have set have the values that clients gave them, as on a
// registering Node.
func (c *Change) labelsOfOthers(r record.Record, node *observe.Node, own map[string]record.Derived, p policy.Policy) map[string]string {
	others := classify.Without(c.itemsOn(node), own)
	maps.DeleteFunc(others, func(key, _ string) bool { return !record.IsLabel(key) })
	for key := range own {
		if _, is := others[key]; is || !record.IsLabel(key) {
			continue
		}
		if value, is := clientsValue(r, node, key, p); is {
			others[key] = value
		}
	}
	return others
}

// setByRules makes what rules want.
func (c *Change) setByRules(node *observe.Node) {
	for key, label := range c.Labels {
		delete(c.Add, key) // the rule's value comes first; the record keeps the other
		delete(c.Correct, key)
		c.Remove = slices.DeleteFunc(c.Remove, func(removed string) bool { return removed == key })
		switch {
		case label.ShownBy(node.Items, key):
		case label.Absent:
			c.RuleRemoves = append(c.RuleRemoves, key)
		default:
			c.RuleSets = with(c.RuleSets, key, label.Value)
		}
	}
}

// undoEndedRules undoes what rules have made of items that no rule decides any more. Each gets a client's value, or is removed.
func (c *Change) undoEndedRules(r record.Record, node *observe.Node, in Circumstances) {
	for _, key := range slices.Sorted(maps.Keys(c.Listed)) {
		was := c.Listed[key]
		if !was.ShownBy(node.Items, key) {
			continue // a client has changed it, and no other client's label is removed
		}
		if _, wanted := c.Labels[key]; wanted {
			continue
		}
		value, is := clientsValue(r, node, key, in.Policy)
		is = is && !in.Refused[key]
		switch e, _ := r.Entry(key); {
		case is && r.DecidedOn(e) != node.UID: // lost with an older object, as what else is restored
			c.Add = with(c.Add, key, value)
		case is:
			c.RuleSets = with(c.RuleSets, key, value) // not given: the stamp would show that the client had removed it
		case !was.Absent:
			c.RuleRemoves = append(c.RuleRemoves, key)
		}
	}
}

// published adds the devices and features of a Node to what else is known of it.
func (in Circumstances) published(node string, facts classify.Facts) classify.Facts {
	if in.Devices != nil {
		facts = in.Devices(node).Join(facts)
	}
	if in.Features != nil {
		facts = in.Features(node).Join(facts)
	}
	return facts
}

// withoutMarks are labels as records have them: without Adopted, Brought and Since. A change that lists them is made once the record has
// forgotten their earlier client. It removes the mark.
func withoutMarks(labels map[string]record.Derived) map[string]record.Derived {
	labels = maps.Clone(labels)
	for key, label := range labels {
		label.Adopted, label.Brought, label.Since = false, false, 0
		labels[key] = label
	}
	return labels
}

// lastDerived is what rules said of this machine last: the record has it before the Node shows it.
func lastDerived(prev record.Record, node *observe.Node, own map[string]record.Derived) map[string]record.Derived {
	same := prev.Newest().UID == node.UID || node.Machine.Compare(prev.Machine) == record.SameMachine
	if prev.Derived == nil || !same {
		return own
	}
	return prev.Derived
}

// shownOf are the labels of rules that a Node with these items shows as they were set.
func shownOf(own map[string]record.Derived, items map[string]string) map[string]record.Derived {
	shown := maps.Clone(own)
	maps.DeleteFunc(shown, func(key string, label record.Derived) bool { return !label.ShownBy(items, key) })
	return shown
}

// keptWhileHeld are the labels of rules that stay as they are while new rules must only add labels. A new object of the same machine does
// not list the labels that it lacks. Either no webhook answered, or no kubelet may carry them. The record shows what rules set and removed
// last. If an object lists a label and lacks it, a client has removed it.
func keptWhileHeld(own, last map[string]record.Derived, items map[string]string) map[string]record.Derived {
	kept := shownOf(own, items)
	for key, label := range last {
		_, listed := own[key]
		_, shown := items[key]
		if !listed && (!shown || label.Absent) {
			kept = with(kept, key, label)
		}
	}
	return kept
}

// withRefused are the labels of rules as the record keeps them. Labels that the API server has refused on this object stay as they were.
// The machine's next object may have them.
func withRefused(labels, last map[string]record.Derived, refused map[string]bool) map[string]record.Derived {
	if len(refused) == 0 {
		return labels
	}
	kept := maps.Clone(labels)
	for key, label := range last {
		if _, is := kept[key]; !is && refused[key] {
			kept = with(kept, key, label)
		}
	}
	return kept
}

// notOn are the labels that the Node lacks or has with other values.
func notOn(labels map[string]record.Derived, items map[string]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if label := labels[key]; !label.Absent && !label.ShownBy(items, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// clientsValue is the value that a client gave a label, if the policy restores it once no rule sets it.
func clientsValue(r record.Record, node *observe.Node, key string, p policy.Policy) (value string, is bool) {
	e, known := r.Entry(key)
	if !known || e.Removed || r.Isolated() {
		return "", false
	}
	restore := p.Restorable(policy.Kept{Machine: node.Machine}, policy.Kept{Items: map[string]string{key: e.Value}, Machine: r.Machine}, policy.Live)
	value, is = restore.Add[key]
	return value, is
}

// settlesIn is when to evaluate the rules again although nothing is observed. A label is held for a time, or a device plugin may still
// register. 0 is never.
func settlesIn(result classify.Result, node *observe.Node, now time.Time) (in time.Duration) {
	sooner := func(at time.Time) {
		if wait := at.Sub(now); wait > 0 && (in == 0 || wait < in) {
			in = wait
		}
	}
	for _, label := range result.Labels {
		if !label.Until.IsZero() {
			sooner(label.Until)
		}
	}
	if result.Unknown && node.Reported.Ready != 0 {
		sooner(time.Unix(node.Reported.Ready, 0).Add(classify.PluginGrace))
	}
	return in
}

// RulesAlter reports whether rules that are not held would remove or replace labels of a Node. Labels of operators count, too.
func RulesAlter(r record.Record, node *observe.Node, in Circumstances) bool {
	in.Policy = in.Policy.Holding(false)
	if MigrationsRemove(r, node, in) {
		return true
	}
	if len(node.ListedLabels()) == 0 && !in.Policy.LabelRules().Replaces() {
		return false
	}
	var change Change
	_, _ = change.followLabelRules(r, r, node, in)
	return change.altersLabels(node.Items)
}

// renamedOn are the labels to remove from a Node because migrations have renamed them. The Node and the record already have each under its
// new key. So no state of the Node lacks both.
func renamedOn(node *observe.Node, r record.Record, in Circumstances) (keys []string) {
	if in.Policy.Held() || len(in.Policy.Migrations()) == 0 || r.Isolated() {
		return nil
	}
	metadata := node.Metadata(r, in.Policy, in.Guarded)
	for _, m := range in.Policy.Migrations() {
		if m.Removes(in.Policy, metadata) && !in.Refused[m.From] {
			keys = append(keys, m.From)
		}
	}
	return keys
}

// MigrationsRemove reports whether migrations that are not held remove a label of a Node.
func MigrationsRemove(r record.Record, node *observe.Node, in Circumstances) bool {
	in.Policy = in.Policy.Holding(false)
	renamed, _ := node.Renamed(r, in.Policy, in.Guarded, in.Now)
	return len(renamedOn(node, renamed, in)) > 0
}
