package capture

import (
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// RuleChange is the part of a change that is about labels which rules set.
type RuleChange struct {
	RuleSets       map[string]string         // labels to set; and items to what a client gave them before, where no rule decides them any more
	RuleRemoves    []string                  // labels to remove, which rules have set and no longer want; and items that rules remove
	Listed         map[string]record.Derived // what the annotation lists before the change
	Labels         map[string]record.Derived // and after it
	WriteLabelList bool                      // the annotation has to be written
	NoRoom         []string                  // labels that rules want and the annotation has no room to list: they wait, and with them the gate
}

// sets reports whether the change makes a label or taint as a rule wants it.
func (r RuleChange) sets(key string) bool {
	_, set := r.RuleSets[key]
	return set || slices.Contains(r.RuleRemoves, key)
}

// listedOn are the labels of rules as the annotation lists them after the change. Each has the version since which it is as its rule wants.
func (r RuleChange) listedOn(node *observe.Node) map[string]record.Derived {
	before, after := node.ListedLabels(), maps.Clone(r.Labels)
	for key, label := range after {
		was, listed := before[key]
		label.Since = node.Version
		if listed && !r.sets(key) && was.Value == label.Value && was.Absent == label.Absent && was.Adopted == label.Adopted {
			label.Since = was.Since
		}
		after[key] = label
	}
	return after
}

func (c *Change) label(key, value string) {
	if c.RuleSets == nil {
		c.RuleSets = map[string]string{}
	}
	c.RuleSets[key] = value
}

// changesLabels reports whether rules change a label.
func (r RuleChange) changesLabels() bool { return len(r.RuleSets)+len(r.RuleRemoves) > 0 }

// altersLabels reports whether a label that rules have set is removed or changed. A change back to an operator's value counts. So does a
// label that is removed only when its hold ends.
func (r RuleChange) altersLabels() bool {
	for key, label := range r.Labels {
		if listed, is := r.Listed[key]; is && listed.Until.IsZero() && !label.Until.IsZero() {
			return true
		}
	}
	for key, value := range r.RuleSets {
		if listed, is := r.Listed[key]; is && (listed.Absent || listed.Value != value) {
			return true
		}
	}
	return len(r.RuleRemoves) > 0
}

// drifted are the labels of rules that another client has changed or removed. It includes items that rules remove and the client has added
// again.
func (r RuleChange) drifted() (keys []string) {
	for key, value := range r.RuleSets {
		if listed, is := r.Listed[key]; is && !listed.Absent && listed.Value == value {
			keys = append(keys, key)
		}
	}
	for _, key := range r.RuleRemoves {
		if r.Listed[key].Absent {
			keys = append(keys, key)
		}
	}
	return keys
}

// without is the part without the settings that drop selects. Those stay listed as before.
func (r RuleChange) without(drop func(setting) bool) RuleChange {
	rest := r
	rest.RuleSets, rest.Labels, rest.RuleRemoves = map[string]string{}, maps.Clone(r.Labels), nil
	as := func(key string) {
		delete(rest.Labels, key)
		if label, is := r.Listed[key]; is {
			if rest.Labels == nil {
				rest.Labels = map[string]record.Derived{}
			}
			rest.Labels[key] = label
		}
	}
	for key, value := range r.RuleSets {
		if drop(setting{item: key, value: value}) {
			as(key)
		} else {
			rest.RuleSets[key] = value
		}
	}
	for _, key := range r.RuleRemoves {
		if drop(setting{item: key, removed: true}) {
			as(key)
		} else {
			rest.RuleRemoves = append(rest.RuleRemoves, key)
		}
	}
	rest.WriteLabelList = r.WriteLabelList && (rest.changesLabels() || !record.SameDerived(rest.Labels, r.Listed)) && !drop(r.listing())
	return rest
}

// listing is that the annotation lists the labels.
func (r RuleChange) listing() setting {
	return setting{item: policy.LabelsAnnotation, value: policy.Own{Labels: r.Labels}.Annotations(0)[policy.LabelsAnnotation]}
}

// settings is what rules set on the Node.
func (r RuleChange) settings() (all []setting) {
	for _, key := range slices.Sorted(maps.Keys(r.RuleSets)) {
		all = append(all, setting{item: key, value: r.RuleSets[key]})
	}
	for _, key := range r.RuleRemoves {
		all = append(all, setting{item: key, removed: true})
	}
	if r.WriteLabelList && !r.changesLabels() {
		all = append(all, r.listing())
	}
	return all
}
