package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/record"
)

type fileTaints struct {
	Keep     json.RawMessage `json:"keep"`
	Ignore   json.RawMessage `json:"ignore"`
	Register json.RawMessage `json:"register"`
	Rules    json.RawMessage `json:"rules"`
}

type fileRegistration struct {
	Taint        json.RawMessage `json:"taint"`
	NodeSelector json.RawMessage `json:"nodeSelector"`
}

type fileRule struct {
	Selector json.RawMessage `json:"selector"`
	Taint    json.RawMessage `json:"taint"`
}

// defaultTaints keeps every taint but what other components own.
func defaultTaints() taintPolicy {
	var t taintPolicy
	t.keep.add("*", "*")
	for _, entry := range taintCatalogue() {
		t.owned.add(entry.pattern, entry.owner)
	}
	return t
}

// taintPolicy reads the section; strict are the mistakes that name fields which are not there.
func (f fileTaints) taintPolicy(gate Gate, mistakes *field.ErrorList) (t taintPolicy, strict []error) {
	t = defaultTaints()
	path := field.NewPath("taints")
	if keep, set := keyPatterns(f.Keep, path.Child("keep"), mistakes); set {
		t.keep = patternSet{}
		for _, pattern := range keep {
			t.keep.add(pattern, pattern)
		}
	}
	ignore, _ := keyPatterns(f.Ignore, path.Child("ignore"), mistakes)
	for _, pattern := range ignore {
		t.ignore.add(pattern, pattern)
	}
	for i, raw := range elements(f.Register, path.Child("register"), mistakes) {
		at := path.Child("register").Index(i)
		var entry fileRegistration
		strict = append(strict, section(raw, at, &entry)...)
		selector, more := readSelector(entry.NodeSelector, at.Child("nodeSelector"), mistakes)
		strict = append(strict, more...)
		if rule, ok := readRule(entry.Taint, at.Child("taint"), selector, gate, mistakes); ok {
			t.register = addRule(t.register, rule, at.Child("taint"), mistakes)
		}
	}
	for i, raw := range elements(f.Rules, path.Child("rules"), mistakes) {
		at := path.Child("rules").Index(i)
		var entry fileRule
		strict = append(strict, section(raw, at, &entry)...)
		selector, more := readSelector(entry.Selector, at.Child("selector"), mistakes)
		strict = append(strict, more...)
		if selector != nil && selector.Empty() {
			*mistakes = append(*mistakes, field.Required(at.Child("selector"), "must select by a label; without one, the rule would taint every Node"))
		}
		rule, ok := readRule(entry.Taint, at.Child("taint"), selector, gate, mistakes)
		if owner, owned := t.owned.match(rule.taint.Key); owned && !gate.Is(rule.taint) {
			*mistakes = append(*mistakes, field.Invalid(at.Child("taint"), asWritten(entry.Taint), "a rule cannot make it: it belongs to "+owner))
			continue
		}
		if ok {
			t.rules = addRule(t.rules, rule, at.Child("taint"), mistakes)
		}
	}
	t.keepApart(path.Child("register"), mistakes)
	return t, strict
}

// keepApart refuses a taint that is both put on once and made by a rule: whoever took it off would see it come back.
func (t taintPolicy) keepApart(path *field.Path, mistakes *field.ErrorList) {
	for _, registered := range t.register {
		item := record.TaintKey(registered.taint)
		if slices.ContainsFunc(t.rules, func(r taintRule) bool { return record.TaintKey(r.taint) == item }) {
			*mistakes = append(*mistakes, field.Invalid(path, item, "taints.rules make a taint of this key and effect too: it could not be taken off for good"))
		}
	}
}

// addRule appends a rule unless an earlier one leaves it nothing to decide and says otherwise.
func addRule(rules []taintRule, rule taintRule, path *field.Path, mistakes *field.ErrorList) []taintRule {
	for _, earlier := range rules {
		if record.TaintKey(earlier.taint) == record.TaintKey(rule.taint) && earlier.taint.Value != rule.taint.Value && canonical(earlier.selector) == canonical(rule.selector) {
			*mistakes = append(*mistakes, field.Invalid(path, rule.taint.ToString(),
				"an earlier entry with an equal selector says "+earlier.taint.ToString()+"; a Node can have one taint of a key and effect"))
			return rules
		}
	}
	return append(rules, rule)
}

// readRule reads a taint, "key=value:effect" or "key:effect" as kubectl taint writes it. selector is nil where it could
// not be read; then what depends on it is not checked.
func readRule(raw json.RawMessage, path *field.Path, selector labels.Selector, gate Gate, mistakes *field.ErrorList) (rule taintRule, ok bool) {
	var text string
	if absent(raw) {
		*mistakes = append(*mistakes, field.Required(path, "must be a taint, key=value:effect or key:effect"))
		return taintRule{}, false
	}
	if json.Unmarshal(raw, &text) != nil {
		*mistakes = append(*mistakes, field.TypeInvalid(path, asWritten(raw), "must be a taint, key=value:effect or key:effect"))
		return taintRule{}, false
	}
	rule = taintRule{selector: selector, taint: parseTaint(text)}
	wrong := func(detail string) {
		*mistakes, ok = append(*mistakes, field.Invalid(path, text, detail)), false
	}
	ok = selector != nil
	for _, problem := range validation.IsQualifiedName(rule.taint.Key) {
		wrong("key " + problem)
	}
	if !record.ValidEffect(rule.taint.Effect) {
		wrong("must end in one of :NoSchedule, :PreferNoSchedule, :NoExecute")
	}
	if gate.Is(rule.taint) {
		wrong("is the gate, which nodekeep puts on and takes off by itself")
	}
	if !strings.Contains(rule.taint.Value, valuePlaceholder) {
		for _, problem := range validation.IsValidLabelValue(rule.taint.Value) {
			wrong("value " + problem)
		}
		return rule, ok
	}
	if selector != nil {
		rule = rule.copying(wrong)
	}
	return rule, ok
}

// copying finds out which label a rule with a placeholder copies, and refuses a taint that would not always be valid.
func (r taintRule) copying(wrong func(detail string)) taintRule {
	all, present := keysOf(r.selector)
	if len(all) != 1 || len(present) != 1 {
		wrong("{value} needs a selector by exactly one label, which every Node that it selects has")
		return r
	}
	r.copies = all[0]
	values, limited := r.valuesOf(r.copies)
	if !limited && r.taint.Value != valuePlaceholder {
		wrong("would not be valid for every value that label " + r.copies + " can have (up to 63 characters, or none): let {value} be the whole value, or select by named values: \"" + r.copies + " in (a, b)\"")
		return r
	}
	for _, value := range values {
		made := r.make(value).Value
		for _, problem := range validation.IsValidLabelValue(made) {
			wrong(fmt.Sprintf("for %s=%s its value would be %q: %s", r.copies, value, made, problem))
		}
	}
	return r
}

// parseTaint takes a text apart without judging it.
func parseTaint(text string) corev1.Taint {
	taint := record.Taint(text, "")
	taint.Key, taint.Value, _ = strings.Cut(taint.Key, "=")
	return taint
}

// readSelector reads a label selector, either as kubectl -l takes it or with matchLabels and matchExpressions. Absent, it
// selects every Node; nil comes back with mistakes only.
func readSelector(raw json.RawMessage, path *field.Path, mistakes *field.ErrorList) (selector labels.Selector, strict []error) {
	var text string
	switch {
	case absent(raw):
		return labels.Everything(), nil
	case json.Unmarshal(raw, &text) == nil:
		selector, err := labels.Parse(text)
		if err != nil {
			*mistakes = append(*mistakes, field.Invalid(path, text, err.Error()))
			return nil, nil
		}
		return selector, nil
	}
	var structured metav1.LabelSelector
	if json.Unmarshal(raw, &metav1.LabelSelector{}) != nil {
		*mistakes = append(*mistakes, field.TypeInvalid(path, asWritten(raw), `must be a label selector: a text, or a map with matchLabels (values are texts: "true", "1") and matchExpressions`))
		return nil, nil
	}
	if strict = section(raw, path, &structured); len(strict) > 0 {
		return nil, strict
	}
	selector, err := metav1.LabelSelectorAsSelector(&structured)
	if err != nil {
		*mistakes = append(*mistakes, field.Invalid(path, asWritten(raw), err.Error()))
		return nil, nil
	}
	return selector, nil
}

// elements reads a list without its elements.
func elements(raw json.RawMessage, path *field.Path, mistakes *field.ErrorList) (items []json.RawMessage) {
	if !absent(raw) && json.Unmarshal(raw, &items) != nil {
		*mistakes = append(*mistakes, field.TypeInvalid(path, asWritten(raw), "must be a list"))
		return nil
	}
	return items
}
