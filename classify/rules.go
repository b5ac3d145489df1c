package classify

import (
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/record"
)

// Rules are checked rules in their order. They are immutable and safe for concurrent use; the zero value sets nothing.
type Rules struct {
	all  []compiled
	uses uses
}

// uses is what rules use.
type uses struct {
	capacity, allocatable map[string]bool
	system                bool
	devices               UsedDrivers
	declared, features    UsedFeatures
	inventory             bool
}

// Empty reports whether there is no rule.
func (r Rules) Empty() bool { return len(r.all) == 0 }

// UsedDrivers is what rules use of devices: names of attributes, by driver.
type UsedDrivers map[string][]string

// Equal reports whether rules use the same.
func (d UsedDrivers) Equal(o UsedDrivers) bool { return maps.EqualFunc(d, o, slices.Equal) }

// Empty reports whether rules use none.
func (d UsedDrivers) Empty() bool { return len(d) == 0 }

// add notes an attribute; empty: only how many devices there are.
func (d *UsedDrivers) add(driver, attribute string) {
	attributes := (*d)[driver]
	if i, known := slices.BinarySearch(attributes, attribute); attribute != "" && !known {
		attributes = slices.Insert(attributes, i, attribute)
	}
	if *d == nil {
		*d = UsedDrivers{}
	}
	(*d)[driver] = attributes
}

// Drivers returns those whose devices rules use; none: rules use no ResourceSlices.
func (r Rules) Drivers() UsedDrivers { return r.uses.devices }

// Resources returns those of which rules use how much a Node has. The maps are not to be changed.
func (r Rules) Resources() (capacity, allocatable map[string]bool) {
	return r.uses.capacity, r.uses.allocatable
}

// Sets reports whether a rule sets a label or removes a label or taint. A rule of mode audit counts, too.
func (r Rules) Sets(key string) bool {
	return slices.ContainsFunc(r.all, func(rule compiled) bool { return slices.Contains(rule.keys, key) })
}

// MayRemoveOrReplace reports whether a rule removes or replaces what others may have set.
func (r Rules) MayRemoveOrReplace() bool {
	return slices.ContainsFunc(r.all, func(rule compiled) bool { return (rule.force || len(rule.absent) > 0) && !rule.audit })
}

// Keys returns all that rules set or remove, sorted, audited ones included.
func (r Rules) Keys() (keys []string) {
	for _, rule := range r.all {
		keys = append(keys, rule.keys...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// SetBy names the rules that set a label, in their order. Rules of mode audit set none.
func (r Rules) SetBy(key string) (names []string) {
	for _, rule := range r.all {
		if !rule.audit && slices.Contains(rule.keys, key) {
			names = append(names, rule.name)
		}
	}
	return names
}

// find returns the rule that has decided a key, if it decides it the same way still. A rule is what it sets, not its name. If no rule has that
// name any more, it is the first from that index on which sets the value. The value of a template is not known without its facts. So it
// counts as the same.
func (r Rules) find(prev record.RuleLabel, key string, from int) (i int, decides bool) {
	i = slices.IndexFunc(r.all, func(rule compiled) bool { return rule.name == prev.Rule })
	if i >= 0 {
		return i, r.all[i].decides(key, prev.Absent)
	}
	for ; i < 0 && from < len(r.all); from++ {
		if r.all[from].makes(key, prev) {
			i = from
		}
	}
	return i, i >= 0
}

// makes reports whether a rule of the policy decides a key as another one did.
func (r *compiled) makes(key string, prev record.RuleLabel) bool {
	if !r.decides(key, prev.Absent) || r.sources != nil {
		return false
	}
	if prev.Absent {
		return true
	}
	value, literal := r.set[key].literal()
	return !literal || value == prev.Value
}

// decides reports whether a rule sets a key, or keeps it off Nodes if absent.
func (r *compiled) decides(key string, absent bool) bool {
	return !r.audit && slices.Contains(r.keys, key) && r.absent[key] == absent
}

// RuleKeys are the labels that a rule names.
type RuleKeys struct {
	Rule                   string
	Selects, Sets, Removes []string // each sorted
}

// Keyed returns the labels that each rule names, in the order of the rules. Those of mode audit are among them.
func (r Rules) Keyed() (all []RuleKeys) {
	for _, rule := range r.all {
		if rule.sources != nil { // no rule of the policy
			continue
		}
		keys := RuleKeys{Rule: rule.name, Selects: rule.selects()}
		slices.Sort(keys.Selects)
		keys.Selects = slices.Compact(keys.Selects)
		for _, key := range rule.keys {
			switch {
			case !record.IsLabel(key): // a taint
			case rule.absent[key]:
				keys.Removes = append(keys.Removes, key)
			default:
				keys.Sets = append(keys.Sets, key)
			}
		}
		all = append(all, keys)
	}
	return all
}

// selects returns the labels that the rule uses, some more than once.
func (r *compiled) selects() (keys []string) {
	for _, value := range r.set {
		keys = append(keys, value.labels()...)
	}
	return r.condition.selects(keys)
}

// selects adds the labels that the condition uses.
func (c condition) selects(keys []string) []string {
	for _, requirement := range c.labels {
		keys = append(keys, requirement.Key())
	}
	for _, alternative := range c.alternatives {
		keys = alternative.selects(keys)
	}
	return keys
}
