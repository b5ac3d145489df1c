package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/record"
)

// valuePlaceholder stands in the value of a rule's taint for the value of the label that the rule selects by.
const valuePlaceholder = "{value}"

// taintRule makes a taint of the labels of a Node.
type taintRule struct {
	selector labels.Selector
	taint    corev1.Taint // its value may hold the placeholder
	copies   string       // the label whose value takes the placeholder's place; empty: none does
	onReboot bool         // a Node gets the taint of a registration again after each reboot
}

// haveTaint reports whether a rule makes a taint of this key and effect.
func haveTaint(rules []taintRule, item string) bool {
	return slices.ContainsFunc(rules, func(rule taintRule) bool { return record.TaintKey(rule.taint) == item })
}

// taintsFor applies rules in order; the first that selects the Node decides a key and effect.
func taintsFor(rules []taintRule, nodeLabels map[string]string) []corev1.Taint {
	all, _ := taintsOf(rules, nodeLabels)
	return all
}

// taintsOf returns the same, and those of them that a Node gets again after a reboot.
func taintsOf(rules []taintRule, nodeLabels map[string]string) (made, onReboot []corev1.Taint) {
	for _, rule := range rules {
		if !rule.selector.Matches(labels.Set(nodeLabels)) {
			continue
		}
		taint := rule.make(nodeLabels[rule.copies])
		if record.Valid(record.TaintKey(taint), taint.Value) { // the labels may come from a record that a client edited
			decided := WithoutKeys([]corev1.Taint{taint}, made)
			made = append(made, decided...)
			if rule.onReboot {
				onReboot = append(onReboot, decided...)
			}
		}
	}
	record.SortTaints(made)
	record.SortTaints(onReboot)
	return made, onReboot
}

// make returns the rule's taint for a value of the label that it copies.
func (r taintRule) make(value string) corev1.Taint {
	made := r.taint
	if r.copies != "" {
		made.Value = strings.ReplaceAll(made.Value, valuePlaceholder, value)
	}
	return made
}

// makes reports whether the rule makes the taint for any value.
func (r taintRule) makes(taint corev1.Taint) bool {
	if record.TaintKey(taint) != record.TaintKey(r.taint) {
		return false
	}
	if r.copies == "" {
		return taint.Value == r.taint.Value
	}
	values, limited := r.valuesOf(r.copies)
	if !limited { // then the placeholder is the whole value
		values = []string{taint.Value}
	}
	return slices.ContainsFunc(values, func(value string) bool {
		// The selector uses no other label; it may rule the value out.
		return r.make(value).Value == taint.Value && r.selector.Matches(labels.Set{r.copies: value})
	})
}

// valuesOf lists the values that the label can have on a Node that the rule selects. If it can have any value, limited is false.
func (r taintRule) valuesOf(key string) (values []string, limited bool) {
	requirements, _ := r.selector.Requirements()
	var possible sets.Set[string]
	for _, requirement := range requirements {
		if requirement.Key() != key || !picksValues(requirement.Operator()) {
			continue
		}
		if named := sets.New(requirement.ValuesUnsorted()...); possible == nil {
			possible = named
		} else {
			possible = possible.Intersection(named)
		}
	}
	return sets.List(possible), possible != nil
}

// keysOf lists the labels that a selector uses, and which of them every selected Node has.
func keysOf(selector labels.Selector) (all, present []string) {
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		all = append(all, requirement.Key())
		switch operator := requirement.Operator(); {
		case picksValues(operator), operator == selection.Exists, operator == selection.GreaterThan, operator == selection.LessThan:
			present = append(present, requirement.Key())
		}
	}
	slices.Sort(all)
	slices.Sort(present)
	return slices.Compact(all), slices.Compact(present)
}

func picksValues(operator selection.Operator) bool {
	return operator == selection.In || operator == selection.Equals || operator == selection.DoubleEquals
}

// canonical writes a selector so that equal selectors are equal texts: "a=b" and "a in (b)" are one.
func canonical(selector labels.Selector) string {
	requirements, _ := selector.Requirements()
	var terms []string
	for _, requirement := range requirements {
		operator := requirement.Operator()
		switch {
		case picksValues(operator):
			operator = selection.In
		case operator == selection.NotEquals:
			operator = selection.NotIn
		}
		values := sets.List(sets.New(requirement.ValuesUnsorted()...))
		terms = append(terms, requirement.Key()+" "+string(operator)+" "+strings.Join(values, ","))
	}
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), "; ")
}
