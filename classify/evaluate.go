package classify

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/record"
)

// Result is what rules say of one Node.
type Result struct {
	// Labels are those that rules set, by key; and labels and taints that they remove, see [record.RuleLabel].
	Labels map[string]record.RuleLabel
	// Taken are keys that a rule would set and that the Node has already, from an operator or the kubelet. They stay.
	Taken map[string]record.RuleLabel
	// Audited is what rules of mode audit would set.
	Audited map[string]record.RuleLabel
	// Blocked are keys for which a fact is not known, by rule. A blocked key that had a value before is in Labels, too. If it was absent
	// before, it is neither restored nor removed.
	Blocked map[string]string
	// Unknown says that a fact is not known, also of a rule of mode audit.
	Unknown bool
	// Problems are labels that could not be set.
	Problems []Problem
}

// Problem is a value that no label can have.
type Problem struct {
	Key, Rule, Value, Reason string
}

// Evaluate is one pass over the rules. The parameter before has what rules said of the same machine last. If a fact is not known, or while
// a rule holds its labels, a value stays as it was.
func (r Rules) Evaluate(facts Facts, prev map[string]record.RuleLabel, now time.Time) Result {
	return r.evaluate(facts, prev, now, nil)
}

func (r Rules) evaluate(facts Facts, prev map[string]record.RuleLabel, now time.Time, trace *trace) Result {
	e := evaluation{rules: r, facts: facts, prev: prev, now: now, trace: trace}
	for i := range r.all {
		e.apply(i)
	}
	return e.result
}

// LabelsWhenHeld returns the labels of a result while its rules must only add labels. Labels in prev stay as they are, and so does every item that is present on
// the Node. For such a present item, the label of the result counts only if it is what rules made of the item last.
func (r Result) LabelsWhenHeld(prev, last map[string]record.RuleLabel, present func(item string) bool) map[string]record.RuleLabel {
	labels := make(map[string]record.RuleLabel, len(r.Labels)+len(prev))
	for key, label := range r.Labels {
		old, known := last[key]
		if !present(key) || known && old.Value == label.Value && old.Absent == label.Absent {
			labels[key] = label
		}
	}
	maps.Copy(labels, prev)
	return labels
}

// WithoutRuleLabels returns the labels of a Node, without those that rules have set and that are unchanged since.
func WithoutRuleLabels(labels map[string]string, ruleLabels map[string]record.RuleLabel) map[string]string {
	rest := make(map[string]string, len(labels))
	for key, value := range labels {
		if label, ok := ruleLabels[key]; !ok || label.Absent || label.Value != value {
			rest[key] = value
		}
	}
	return rest
}

// evaluation is one pass.
type evaluation struct {
	rules   Rules
	facts   Facts
	prev    map[string]record.RuleLabel
	now     time.Time
	invalid map[string]bool // keys that a rule has decided, to a value that no label can have
	result  Result
	trace   *trace // nil: no explanation is needed
}

var _ labels.Labels = (*evaluation)(nil)

// Lookup returns the value of a label: that of the rules so far, else that of operators and kubelets.
func (e *evaluation) Lookup(key string) (value string, ok bool) {
	ruleLabel, decided := e.result.Labels[key]
	if _, blocked := e.result.Blocked[key]; !decided || ruleLabel.Absent && blocked {
		value, ok = e.facts.Labels[key]
		return value, ok
	}
	return ruleLabel.Value, !ruleLabel.Absent
}

// Get and Has complete [labels.Labels].
func (e *evaluation) Get(key string) string {
	value, _ := e.Lookup(key)
	return value
}

// Has reports whether the Node has a label.
func (e *evaluation) Has(key string) bool {
	_, ok := e.Lookup(key)
	return ok
}

func (e *evaluation) apply(i int) {
	rule := &e.rules.all[i]
	if e.trace != nil {
		e.trace.tests = nil
	} else if !slices.ContainsFunc(rule.keys, func(key string) bool { return !e.decided(key) }) {
		return // earlier rules have decided all of its keys
	}
	holds := e.holds(&rule.condition)
	for _, key := range rule.keys {
		outcome := False
		switch {
		case e.decided(key):
			outcome = Later
		case rule.sources != nil:
			outcome = e.copy(i, key)
		case holds == yes:
			outcome = e.set(i, key)
		case holds == unknown:
			outcome = e.block(i, key)
		case rule.hold > 0 && !rule.audit:
			outcome = e.held(i, key)
		}
		if e.trace != nil {
			e.trace.step(e, rule, key, outcome)
		}
	}
}

// set decides a key by a rule that is true.
func (e *evaluation) set(i int, key string) Outcome {
	rule := &e.rules.all[i]
	if rule.absent[key] {
		return e.give(rule, key, record.RuleLabel{Rule: rule.name, Absent: true})
	}
	value, literal := rule.set[key].literal()
	if !literal { // a literal was validated when the rules were compiled
		var err error
		switch value, err = e.render(rule.set[key], rule); {
		case errors.Is(err, errUnknown):
			return e.block(i, key)
		case errors.Is(err, errAbsent) && rule.hold > 0 && !rule.audit:
			return e.held(i, key)
		case errors.Is(err, errAbsent):
			return False
		case err != nil:
			return e.problem(i, key, "", err.Error())
		}
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			if rule.set[key].inventory() { // an error of the inventory removes no label
				e.block(i, key)
				e.result.Problems = append(e.result.Problems, Problem{Key: key, Rule: rule.name, Value: value, Reason: strings.Join(wrong, "; ")})
				return Invalid
			}
			return e.problem(i, key, value, strings.Join(wrong, "; "))
		}
	}
	return e.give(rule, key, derivedBy(rule, value))
}

// problem decides a key to no value. The rule holds its label first, since an update of a driver may pass through such a state.
func (e *evaluation) problem(i int, key, value, reason string) Outcome {
	rule := &e.rules.all[i]
	e.result.Problems = append(e.result.Problems, Problem{Key: key, Rule: rule.name, Value: value, Reason: reason})
	if rule.audit {
		return Invalid
	}
	if rule.hold > 0 {
		if outcome := e.held(i, key); outcome != False {
			return outcome
		}
	}
	put(&e.invalid, key, true)
	return Invalid
}

// block keeps later rules from the key. The value from before stays if this rule or a later one made it and still sets the key. An earlier
// rule is false, so its value does not stay.
func (e *evaluation) block(i int, key string) Outcome {
	rule := &e.rules.all[i]
	e.result.Unknown = true
	if !rule.audit {
		put(&e.result.Blocked, key, rule.name)
	}
	prev, ours := e.prev[key]
	decider, decides := e.rules.find(prev, key, i)
	if !ours || !decides || decider < i {
		return Unknown
	}
	if !prev.Absent {
		if literal, ok := e.rules.all[decider].set[key].literal(); ok {
			prev.Value = literal // the rule may have changed since
		}
	}
	if !rule.audit {
		rule = &e.rules.all[decider] // what it may replace of operators' it still may: nothing is known that changes that
	}
	e.give(rule, key, record.RuleLabel{Value: prev.Value, Rule: e.rules.all[decider].name, Absent: prev.Absent})
	return Unknown
}

// held keeps the value of a rule that became false, for as long as the rule says. It ends when an operator sets the label: then later rules
// are evaluated. An item that the rule removed stays absent for that time, even if a client sets it.
func (e *evaluation) held(i int, key string) Outcome {
	rule := &e.rules.all[i]
	prev, ours := e.prev[key]
	decider, decides := e.rules.find(prev, key, i)
	if !ours || !decides || decider != i || e.Has(key) && !rule.force && !prev.Absent {
		return False
	}
	prev.Rule = rule.name
	if prev.End.IsZero() || prev.End.After(e.now.Add(rule.hold)) {
		prev.End = e.now.Add(rule.hold).UTC().Truncate(time.Second)
	}
	if !e.now.Before(prev.End) {
		return False
	}
	if outcome := e.give(rule, key, prev); outcome != Sets && outcome != Removes {
		return outcome
	}
	return Held
}

func (e *evaluation) give(rule *compiled, key string, ruleLabel record.RuleLabel) Outcome {
	if rule.audit {
		if _, earlier := e.result.Audited[key]; !earlier {
			put(&e.result.Audited, key, ruleLabel)
		}
		return Audited
	}
	if ruleLabel.Absent { // its owner does not matter: the rule demands this
		put(&e.result.Labels, key, ruleLabel)
		return Removes
	}
	if e.Has(key) && !rule.force {
		put(&e.result.Taken, key, ruleLabel)
		return Taken
	}
	put(&e.result.Labels, key, ruleLabel)
	return Sets
}

func derivedBy(rule *compiled, value string) record.RuleLabel {
	return record.RuleLabel{Value: value, Rule: rule.name}
}

// decided reports whether a rule has decided a key. Rules of mode audit decide none.
func (e *evaluation) decided(key string) bool {
	_, set := e.result.Labels[key]
	_, taken := e.result.Taken[key]
	_, blocked := e.result.Blocked[key]
	return set || taken || blocked || e.invalid[key]
}

func put[V any](dest *map[string]V, key string, value V) {
	if *dest == nil {
		*dest = map[string]V{}
	}
	(*dest)[key] = value
}

// awaitsCloud reports whether a cloud controller has yet to set a label. A selector on another label does not wait: a role must be in
// the CREATE.
func (e *evaluation) awaitsCloud(key string) bool {
	return e.facts.Uninitialized && slices.Contains(cloudLabels(), key) && !e.Has(key)
}

// holds reports whether a condition is true of the Node.
func (e *evaluation) holds(c *condition) truth {
	holds := e.facts.satisfy(c, e.trace)
	if holds == no && e.trace == nil { // the rest changes nothing
		return no
	}
	for i := range c.labels {
		requirement := &c.labels[i]
		match := truthOf(requirement.Matches(e))
		if _, blocked := e.result.Blocked[requirement.Key()]; blocked || e.awaitsCloud(requirement.Key()) {
			match = unknown
		}
		if e.trace != nil {
			e.trace.label(e, requirement, match)
		}
		holds = holds.and(match)
	}
	if len(c.alternatives) > 0 {
		from := e.trace.mark()
		either := no
		for i := range c.alternatives {
			if either == yes && e.trace == nil {
				break
			}
			begin := e.trace.mark()
			match := e.holds(&c.alternatives[i])
			e.trace.alternative(begin, i, match)
			either = either.or(match)
		}
		e.trace.either(from, either)
		holds = holds.and(either)
	}
	return holds
}
