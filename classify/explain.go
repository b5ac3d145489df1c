package classify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nodekeep.dev/nodekeep/record"
)

// Outcome is what becomes of one key of one rule in a pass.
type Outcome string

// The outcomes.
const (
	Sets    Outcome = "sets"
	Removes Outcome = "removes"
	False   Outcome = "false"
	Unknown Outcome = "unknown" // a fact is missing; the rule blocks the key
	Held    Outcome = "held"    // the rule became false, and keeps the label for a time
	Taken   Outcome = "taken"   // the Node has the label already, from an operator or the kubelet
	Audited Outcome = "audit"   // the rule would set the label
	Invalid Outcome = "invalid" // the value can be no label
	Later   Outcome = "later"   // an earlier rule decides the key
)

// DevicesFact begins [Test.Fact] of a condition about devices; the driver follows.
const DevicesFact = "devices of "

// Step is what one rule says of one key.
type Step struct {
	Key     string    `json:"key"`
	Rule    string    `json:"rule"`
	Outcome Outcome   `json:"outcome"`
	Value   *string   `json:"value,omitempty"` // that the rule sets, or would set; of an unknown one, the value that stays
	From    string    `json:"from,omitempty"`  // another rule, which set the value that stays
	End     time.Time `json:"until,omitzero"`  // a held label is removed then
	Tests   []Test    `json:"facts,omitempty"` // that decided
}

// Test is one fact that a rule looked at.
type Test struct {
	Fact  string `json:"fact"`
	Want  string `json:"want,omitempty"`  // as the policy says it; empty: the value of the label needs the fact
	Value string `json:"value,omitempty"` // on this Node
	Known bool   `json:"known"`
	// Plugin says that a device plugin or a driver may still report it. The fact is known once the Node was Ready for [PluginGrace].
	Plugin bool `json:"plugin,omitempty"`

	holds truth
}

// Explain is [Rules.Evaluate] with the reasons: a step for each key of each rule. Steps are sorted by key, then in the order of the rules.
func (r Rules) Explain(facts Facts, prev map[string]record.RuleLabel, now time.Time) (Result, []Step) {
	var t trace
	result := r.evaluate(facts, prev, now, &t)
	slices.SortStableFunc(t.steps, func(a, b Step) int { return cmp.Compare(a.Key, b.Key) })
	return result, t.steps
}

// trace notes why a pass has its result. A nil trace notes nothing.
type trace struct {
	steps []Step
	tests []Test // of the rule that is evaluated
}

// test notes a fact, and returns what it makes of the condition.
func (t *trace) test(fact, want, value string, holds truth) truth {
	if t != nil {
		t.tests = append(t.tests, Test{Fact: fact, Want: want, Value: value, Known: holds != unknown, holds: holds})
	}
	return holds
}

func (t *trace) quantity(f *Facts, fact string, list corev1.ResourceList, wanted quantified, holds truth) {
	value := ""
	if amount, reported := list[wanted.name]; reported {
		value = amount.String()
	}
	t.test(fact+string(wanted.name), wanted.operator+wanted.operand.String(), value, holds)
	t.tests[len(t.tests)-1].Plugin = holds == unknown && f.mayRegister(string(wanted.name))
}

// mayRegister reports whether a resource may still be reported, by a device plugin or with it. A kubelet reports the others from the start.
func (f *Facts) mayRegister(name string) bool {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return false
	default:
		return !f.PluginsRegistered
	}
}

func (t *trace) label(e *evaluation, requirement *labels.Requirement, holds truth) {
	t.test("label "+requirement.Key(), requirement.String(), e.Get(requirement.Key()), holds)
}

func (t *trace) devices(f *Facts, condition *DeviceCondition, found int, holds truth) {
	want := ">=" + strconv.Itoa(*condition.Min)
	for _, name := range slices.Sorted(maps.Keys(condition.Attributes)) {
		want += fmt.Sprintf(" with %s %s", name, condition.Attributes[name])
	}
	t.test(DevicesFact+condition.Driver, want, strconv.Itoa(found), holds)
	t.tests[len(t.tests)-1].Plugin = holds == unknown && f.DevicesKnown && !f.PluginsRegistered
}

// mark returns where the tests of a part begin.
func (t *trace) mark() int {
	if t == nil {
		return 0
	}
	return len(t.tests)
}

// alternative replaces the tests of an alternative by those that decided it.
func (t *trace) alternative(from, pos int, holds truth) {
	if t == nil {
		return
	}
	t.either(from, holds)
	for i := range t.tests[from:] {
		t.tests[from+i].Fact = fmt.Sprintf("any[%d] %s", pos, t.tests[from+i].Fact)
	}
}

// either leaves the tests that decided a part.
func (t *trace) either(from int, holds truth) {
	if t != nil {
		t.tests = append(t.tests[:from], slices.DeleteFunc(slices.Clone(t.tests[from:]), func(test Test) bool { return test.holds != holds })...)
	}
}

// step notes what a rule says of a key. A map of resources has no order, so the tests are sorted.
func (t *trace) step(e *evaluation, rule *compiled, key string, outcome Outcome) {
	step := Step{Key: key, Rule: rule.name, Outcome: outcome}
	holds := yes
	switch outcome {
	case Later:
		t.steps = append(t.steps, step)
		return
	case False, Held:
		holds = no
	case Unknown:
		holds = unknown
	}
	tests := slices.Clone(t.tests)
	for _, fact := range rule.set[key].facts {
		text, known, _ := e.fact(fact, rule)
		test := Test{Fact: fact.group + "." + fact.name, Value: text, Known: known, Plugin: !known && fact.ofResource() && e.facts.mayRegister(fact.name), holds: yes}
		if !known {
			test.holds = unknown
		} else if fact.mayLack() && text == "" {
			test.holds = no
		}
		if outcome != False && outcome != Held || test.holds == no {
			tests = append(tests, test)
		}
	}
	step.Tests = slices.DeleteFunc(tests, func(test Test) bool { return test.holds != holds })
	slices.SortStableFunc(step.Tests, func(a, b Test) int { return cmp.Compare(a.Fact, b.Fact) })
	for _, from := range []map[string]record.RuleLabel{e.result.Labels, e.result.Taken, e.result.Audited} {
		if ruleLabel, ok := from[key]; ok && outcome != False {
			if step.End = ruleLabel.End; !ruleLabel.Absent {
				step.Value = &ruleLabel.Value
			}
			if ruleLabel.Rule != rule.name {
				step.From = ruleLabel.Rule
			}
			break
		}
	}
	t.steps = append(t.steps, step)
}
