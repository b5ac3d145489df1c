package impact

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
)

// changesOf returns the changes of two policies as text.
func changesOf(now, planned []policy.Line) (texts []string) {
	for _, c := range ContentChanges(now, planned) {
		texts = append(texts, c.Field+": "+cmp.Or(c.Now, "-")+" -> "+cmp.Or(c.Planned, "-"))
	}
	return texts
}

func TestAComparisonShowsWhatIsSaidDifferentlyWhetherANodeShowsItOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		now, planned string
		want         []string
	}{
		"the same":                       {"labels: {ignore: [a, b]}", "labels: {ignore: [b, a]}", nil},
		"governance of another key":      {"governance: {keys: [{key: a, mode: deny, values: [one, two]}]}", "governance: {keys: [{key: b, mode: deny}]}", []string{`governance.keys[a]: values: "one", "two"; mode: deny -> -`, "governance.keys[b]: - -> mode: deny"}},
		"one value more":                 {"governance: {keys: [{key: a, values: [one]}]}", "governance: {keys: [{key: a, values: [two, one], mode: warn}]}", []string{"governance.keys[a].mode: audit -> warn", `governance.keys[a].values: - -> "two"`}},
		"an entry that says no more":     {"", "governance: {keys: [{key: a}]}", []string{"governance.keys[a]: - -> {}"}},
		"another pattern":                {"labels: {ignore: [a]}", "labels: {ignore: [b]}", []string{`labels.ignore: "a" -> "b"`}},
		"one of two rules of one taint":  {"taints: {rules: [{selector: a, taint: 't:NoSchedule'}, {selector: b, taint: 't:NoSchedule'}]}", "taints: {rules: [{selector: a, taint: 't:NoSchedule'}]}", []string{"taints.rules[t:NoSchedule (2)]: selector: b -> -"}},
		"a label without a value":        {"", "labels: {rules: [{name: r, set: {a: ''}}]}", []string{`labels.rules[r]: - -> set[a]: ""`}},
		"the order of rules":             {"labels: {rules: [{name: r, set: {a: x}}, {name: s, set: {a: w}}]}", "labels: {rules: [{name: s, set: {a: w}}, {name: new, set: {b: x}}, {name: r, set: {a: x}}]}", []string{"labels.rules[new]: - -> set[b]: x", "labels.rules (order): r, s -> s, r"}},
		"a check, and one of a profile":  {"verify: {profiles: [{name: p, checks: [{name: c, api: {}}]}]}", "verify: {profiles: [{name: p, checks: [{name: c, kubelet: {}}, {name: d, dns: {names: [a.example]}}]}]}", []string{"verify.profiles[p].checks[c].api: {} -> -", "verify.profiles[p].checks[c].kubelet: - -> {}", `verify.profiles[p].checks[d]: - -> dns.names: "a.example"`}},
		"the phase of a migration":       {"labels: {migrations: [{from: a, to: b, phase: both}]}", "labels: {migrations: [{from: a, to: b, phase: new}]}", []string{"labels.migrations[a].phase: both -> new"}},
		"a source of an inventory":       {"inventory: [{name: i, configMap: c, attributes: [x]}]", "inventory: [{name: i, configMap: d, attributes: [x]}]", []string{"inventory[i].configMap: c -> d"}},
		"what it accepts, and retention": {"accept: 0123456789ab\nretention: 0", "", []string{"accept: 0123456789ab -> -", "retention: 0s -> 720h"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, changesOf(statetest.Load(t, c.now).Content(), statetest.Load(t, c.planned).Content()))
		})
	}
}

func TestAComparisonShowsTheChangeOfEachFieldOfAPolicy(t *testing.T) {
	prev := policytest.Filled[policy.Spec]().Content()
	assert.Empty(t, changesOf(prev, prev))
	policytest.EachChange(func(path string, changed policy.Spec) {
		assert.NotEmpty(t, changesOf(prev, changed.Content()), path)
		assert.NotEmpty(t, changesOf(changed.Content(), prev), path)
	})
}
