package policy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Reference is a place in the policy that names the key of a label.
type Reference struct {
	Field string // as taints.rules[0].selector
	Key   string
	// Selects says that the policy decides by the label: by its value, or by whether it is there. Otherwise the policy says what becomes of it.
	Selects bool
}

// References returns the label keys that the policy names, in the order of the file. Patterns with a wildcard name none.
func (p Policy) References() (all []Reference) {
	named := func(field string, list patterns) {
		for i, pattern := range list {
			if !strings.Contains(pattern, "*") {
				all = append(all, Reference{Field: fmt.Sprintf("%s[%d]", field, i), Key: pattern})
			}
		}
	}
	selects := func(field string, by labels.Selector) {
		keys, _ := keysOf(by)
		for _, key := range keys {
			all = append(all, Reference{Field: field, Key: key, Selects: true})
		}
	}
	named("labels.keep", p.labels.keep)
	named("labels.ignore", p.labels.ignore)
	named("labels.defer", p.deferred)
	for i, rule := range p.labelRules.Keyed() {
		field := fmt.Sprintf("labels.rules[%d]", i)
		for _, key := range rule.Selects {
			all = append(all, Reference{Field: field + ".when", Key: key, Selects: true})
		}
		for _, key := range rule.Sets {
			all = append(all, Reference{Field: field + ".set", Key: key})
		}
		for _, key := range rule.Removes {
			all = append(all, Reference{Field: field + ".ensureAbsent", Key: key})
		}
	}
	for i, registration := range p.register {
		selects(fmt.Sprintf("taints.register[%d].nodeSelector", i), registration.selector)
	}
	for i, rule := range p.rules { // the label that a taint copies is in the selector, too
		selects(fmt.Sprintf("taints.rules[%d].selector", i), rule.selector)
	}
	for i, profile := range p.verify.All() {
		selects(fmt.Sprintf("verify.profiles[%d].nodeSelector", i), profile.Selector)
	}
	return all
}
