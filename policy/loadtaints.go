package policy

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/record"
)

// readTaints checks registration taints and taint rules.
func (p *Policy) readTaints(f Taints, path *field.Path) field.ErrorList {
	r := ruleReader{gate: p.gate}
	p.register, p.rules = r.taintRules(f, path)
	return r.errs
}

// ruleReader collects all that is wrong with taint rules.
type ruleReader struct {
	gate Gate
	errs field.ErrorList
}

func (r *ruleReader) invalid(path *field.Path, value, detail string) {
	r.errs = append(r.errs, field.Invalid(path, value, detail))
}

// taintRules reads both lists of the section.
func (r *ruleReader) taintRules(f Taints, path *field.Path) (register, rules []taintRule) {
	for i, entry := range f.Register {
		fieldPath := path.Child("register").Index(i)
		selector := r.selector(entry.NodeSelector, fieldPath.Child("nodeSelector"))
		register = r.add(register, taintRule{selector: selector, onReboot: entry.OnReboot}, entry.Taint, fieldPath.Child("taint"))
		if entry.OnReboot && parseTaint(entry.Taint).Effect == corev1.TaintEffectNoExecute {
			r.errs = append(r.errs, field.Forbidden(fieldPath.Child("onReboot"), "onReboot needs a taint with the effect NoSchedule or PreferNoSchedule: the taint is added after the Node has reported its new boot, and NoExecute would evict its Pods"))
		}
	}
	for i, entry := range f.Rules {
		fieldPath := path.Child("rules").Index(i)
		selector := r.selector(entry.Selector, fieldPath.Child("selector"))
		if selector != nil && selector.Empty() {
			r.errs = append(r.errs, field.Required(fieldPath.Child("selector"), "must select by a label; without one, the rule would taint every Node"))
		}
		if taint := parseTaint(entry.Taint); !r.gate.Matches(taint) {
			if owner, owned := taintOwners().lookup(taint.Key); owned {
				r.invalid(fieldPath.Child("taint"), entry.Taint, "a rule cannot make it: it belongs to "+owner)
			}
		}
		rules = r.add(rules, taintRule{selector: selector}, entry.Taint, fieldPath.Child("taint"))
	}
	// Who removes a registration taint would see a rule add it again.
	for _, registered := range register {
		item := record.TaintKey(registered.taint)
		if haveTaint(rules, item) {
			r.invalid(path.Child("register"), item, "taints.rules make a taint of this key and effect too: it could not be removed for good")
		}
	}
	return register, rules
}

// selector reads a label selector. Empty, it selects every Node; it is nil if it is wrong.
func (r *ruleReader) selector(text string, path *field.Path) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		r.invalid(path, text, err.Error())
		return nil
	}
	return selector
}

// add reads the taint of a rule, "key=value:effect" or "key:effect" as kubectl taint writes it, and appends the rule. If its selector is wrong,
// it is nil, and nothing that depends on it is checked. A wrong rule is left out.
func (r *ruleReader) add(rules []taintRule, rule taintRule, text string, path *field.Path) []taintRule {
	if text == "" {
		r.errs = append(r.errs, field.Required(path, "must be a taint, key=value:effect or key:effect"))
		return rules
	}
	rule.taint = parseTaint(text)
	problems := rule.problems()
	if r.gate.Matches(rule.taint) {
		problems = append(problems, "is the gate, which nodekeep adds and removes by itself")
	}
	for _, problem := range problems {
		r.invalid(path, text, problem)
	}
	if len(problems) > 0 || rule.selector == nil {
		return rules
	}
	for _, earlier := range rules {
		if record.TaintKey(earlier.taint) == record.TaintKey(rule.taint) && earlier.taint.Value != rule.taint.Value && canonical(earlier.selector) == canonical(rule.selector) {
			r.invalid(path, text, "an earlier entry with an equal selector says "+earlier.taint.ToString()+"; a Node can have one taint of a key and effect")
			return rules
		}
	}
	return append(rules, rule)
}

// problems returns what is wrong with the taint of a rule. It finds out which label the rule copies.
func (r *taintRule) problems() (problems []string) {
	for _, problem := range validation.IsQualifiedName(r.taint.Key) {
		problems = append(problems, "key "+problem)
	}
	if !record.ValidEffect(r.taint.Effect) {
		problems = append(problems, "must end in one of :NoSchedule, :PreferNoSchedule, :NoExecute")
	}
	if !strings.Contains(r.taint.Value, valuePlaceholder) && strings.ContainsAny(r.taint.Value, "{}") {
		return append(problems, "the value may have one placeholder, {value}, the value of the label that the selector names; it has another one, or a brace too many")
	}
	if !strings.Contains(r.taint.Value, valuePlaceholder) {
		for _, problem := range validation.IsValidLabelValue(r.taint.Value) {
			problems = append(problems, "value "+problem)
		}
		return problems
	}
	if r.selector == nil {
		return problems
	}
	all, present := keysOf(r.selector)
	if len(all) != 1 || len(present) != 1 {
		return append(problems, "{value} needs a selector by exactly one label, which every Node that it selects has")
	}
	r.copies = all[0]
	values, limited := r.valuesOf(r.copies)
	if !limited && r.taint.Value != valuePlaceholder {
		return append(problems, "would not be valid for every value that label "+r.copies+" can have (up to 63 characters, or none): let {value} be the whole value, or select by named values: \""+r.copies+" in (a, b)\"")
	}
	for _, value := range values {
		made := r.make(value).Value
		for _, problem := range validation.IsValidLabelValue(made) {
			problems = append(problems, fmt.Sprintf("for %s=%s its value would be %q: %s", r.copies, value, made, problem))
		}
	}
	return problems
}
