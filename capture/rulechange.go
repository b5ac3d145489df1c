package capture

import (
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// The methods of [Change] here are about labels that rules set.

// sets reports whether the change makes a label or taint as a rule wants it.
func (c Change) sets(key string) bool {
	_, set := c.RuleSets[key]
	return set || slices.Contains(c.RuleRemoves, key)
}

// listedOn are the labels of rules as the annotation lists them after the change. Each has the version since which it is as its rule wants.
func (c Change) listedOn(node *observe.Node) map[string]record.Derived {
	before, after := node.ListedLabels(), maps.Clone(c.Labels)
	for key, label := range after {
		was, listed := before[key]
		label.Since = node.Version
		if listed && !c.sets(key) && was.Value == label.Value && was.Absent == label.Absent && was.Adopted == label.Adopted {
			label.Since = was.Since
		}
		after[key] = label
	}
	return after
}

// changesLabels reports whether rules change a label.
func (c Change) changesLabels() bool { return len(c.RuleSets)+len(c.RuleRemoves) > 0 }

// altersLabels reports whether a label that the Node shows (items), or that rules have set, is removed or replaced. A change back to an
// operator's value counts. So does a label that is removed only when its hold ends. What rules set again, after another client has changed it,
// does not count.
func (c Change) altersLabels(items map[string]string) bool {
	for key, label := range c.Labels {
		if listed, is := c.Listed[key]; is && listed.Until.IsZero() && !label.Until.IsZero() {
			return true
		}
	}
	for key, value := range c.RuleSets {
		listed, is := c.Listed[key]
		_, shown := items[key]
		if is && (listed.Absent || listed.Value != value) || !is && shown {
			return true
		}
	}
	return len(c.RuleRemoves) > 0
}

// drifted are the labels of rules that another client has changed or removed. It includes items that rules remove and the client has added
// again.
func (c Change) drifted() (keys []string) {
	for key, value := range c.RuleSets {
		if listed, is := c.Listed[key]; is && !listed.Absent && listed.Value == value {
			keys = append(keys, key)
		}
	}
	for _, key := range c.RuleRemoves {
		if c.Listed[key].Absent {
			keys = append(keys, key)
		}
	}
	return keys
}

// relisted are the labels as the annotation lists them once only the rest of the change is made. Labels that are left out stay listed as before.
func (c Change) relisted(rest Change) map[string]record.Derived {
	labels := maps.Clone(c.Labels)
	for _, key := range c.keys() {
		if !c.sets(key) || rest.sets(key) {
			continue
		}
		delete(labels, key)
		if label, is := c.Listed[key]; is {
			labels = with(labels, key, label)
		}
	}
	return labels
}

// with is the map with one more value. As append does, it makes a map that is nil.
func with[V any](items map[string]V, key string, value V) map[string]V {
	if items == nil {
		items = map[string]V{}
	}
	items[key] = value
	return items
}

// labelListing is that the annotation lists the labels.
func (c Change) labelListing() setting {
	return setting{item: policy.LabelsAnnotation, value: policy.Own{Labels: c.Labels}.Annotations(0)[policy.LabelsAnnotation]}
}
