package classify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

func TestEvaluateWhatRulesRemove(t *testing.T) {
	type derived = map[string]record.RuleLabel
	const taint = "node-role.kubernetes.io/control-plane:NoSchedule"
	absent := func(rule string) record.RuleLabel { return record.RuleLabel{Rule: rule, Absent: true} }
	gpus := classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=1"}}}
	hasGPU := classify.Facts{PluginsRegistered: true, Capacity: room(gpu, "1")}
	noGPU := classify.Facts{PluginsRegistered: true, Capacity: room(gpu, "0")}
	for name, test := range map[string]struct {
		rules   []classify.Rule
		facts   classify.Facts
		prev    derived
		want    derived
		blocked map[string]string
		taken   derived
		audited derived
	}{
		"a label and a taint, whatever their owner": {
			rules: []classify.Rule{{Name: "one", EnsureAbsent: []string{"joined", taint}}}, facts: classify.Facts{Labels: labels{"joined": "yes"}},
			want: derived{"joined": absent("one"), taint: absent("one")},
		},
		"not where the rule is false": {
			rules: []classify.Rule{{Name: "one", Condition: classify.Condition{Clause: classify.Clause{Names: []string{"b"}}}, EnsureAbsent: []string{"joined"}}}, facts: classify.Facts{Name: "a"},
		},
		"the first rule wins: one that sets the label": {
			rules: []classify.Rule{{Name: "sets", Set: labels{"k": "v"}}, {Name: "removes", EnsureAbsent: []string{"k"}}}, want: derived{"k": {Value: "v", Rule: "sets"}},
		},
		"the first rule wins: one that gives way to an operator's label": {
			rules: []classify.Rule{{Name: "sets", Set: labels{"k": "v"}}, {Name: "removes", EnsureAbsent: []string{"k"}}}, facts: classify.Facts{Labels: labels{"k": "mine"}},
			taken: derived{"k": {Value: "v", Rule: "sets"}},
		},
		"the first rule wins: one that removes the label": {
			rules: []classify.Rule{{Name: "removes", EnsureAbsent: []string{"k"}}, {Name: "sets", Set: labels{"k": "v"}, Precedence: classify.RuleWins}}, facts: classify.Facts{Labels: labels{"k": "mine"}},
			want: derived{"k": absent("removes")},
		},
		"one rule sets a label and removes another": {
			rules: []classify.Rule{{Name: "both", Set: labels{"new": "v"}, EnsureAbsent: []string{"old"}}}, facts: classify.Facts{Labels: labels{"old": "v"}},
			want: derived{"new": {Value: "v", Rule: "both"}, "old": absent("both")},
		},
		"a later rule does not see a label that an earlier one removes": {
			rules: []classify.Rule{{Name: "removes", EnsureAbsent: []string{"old"}}, {Name: "sees", Condition: classify.Condition{Clause: classify.Clause{Labels: "!old"}}, Set: labels{"k": "v"}}},
			facts: classify.Facts{Labels: labels{"old": "v"}}, want: derived{"old": absent("removes"), "k": {Value: "v", Rule: "sees"}},
		},
		"a fact that is not known removes nothing, and keeps later rules from the label": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}, {Name: "sets", Set: labels{"k": "v"}}}, blocked: map[string]string{"k": "gpu"},
		},
		"what was absent before a fact was not known stays so, and the answer says so": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}}, prev: derived{"k": absent("gpu")},
			want: derived{"k": absent("gpu")}, blocked: map[string]string{"k": "gpu"},
		},
		"a value from before of a rule that removes the label now does not stay": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}}, prev: derived{"k": {Value: "v", Rule: "gpu"}}, blocked: map[string]string{"k": "gpu"},
		},
		"what was absent before is not set to nothing by a rule that sets the label now": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, Set: labels{"k": "{capacity.nvidia.com/gpu}"}}}, prev: derived{"k": absent("gpu")}, blocked: map[string]string{"k": "gpu"},
		},
		"held: it stays absent for a while": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}}, facts: noGPU, prev: derived{"k": absent("gpu")},
			want: derived{"k": {Rule: "gpu", Absent: true, End: now.Add(classify.PluginGrace)}},
		},
		"held: a label that an operator has set stays absent, too": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}, {Name: "sets", Set: labels{"k": "v"}}}, facts: classify.Facts{PluginsRegistered: true, Capacity: room(), Labels: labels{"k": "mine"}},
			prev: derived{"k": absent("gpu")}, want: derived{"k": {Rule: "gpu", Absent: true, End: now.Add(classify.PluginGrace)}},
		},
		"held: not a value that the rule set before": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}}, facts: noGPU, prev: derived{"k": {Value: "v", Rule: "gpu"}},
		},
		"held: no longer than that": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}}, facts: noGPU, prev: derived{"k": {Rule: "gpu", Absent: true, End: now.Add(-time.Second)}},
		},
		"a fact that is known removes it": {
			rules: []classify.Rule{{Name: "gpu", Condition: gpus, EnsureAbsent: []string{"k"}}}, facts: hasGPU, want: derived{"k": absent("gpu")},
		},
		"a rule in audit only reports": {
			rules: []classify.Rule{{Name: "audited", EnsureAbsent: []string{"k"}, Mode: classify.Audit}}, facts: classify.Facts{Labels: labels{"k": "v"}}, audited: derived{"k": absent("audited")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := compiled(t, test.rules...)
			got := rules.Evaluate(test.facts, test.prev, now)
			assert.Equal(t, test.want, got.Labels)
			assert.Equal(t, test.blocked, got.Blocked)
			assert.Equal(t, test.taken, got.Taken)
			assert.Equal(t, test.audited, got.Audited)
			assert.Equal(t, got.Labels, rules.Evaluate(test.facts, got.Labels, now).Labels, "a second pass changes nothing")
			for key, label := range got.Labels {
				assert.True(t, label.ValidFor(key))
			}
		})
	}
}

func TestCompileNamesEveryErrorInWhatARuleRemoves(t *testing.T) {
	_, errs := classify.Compile([]classify.Rule{
		{Name: "a", EnsureAbsent: []string{"k", "k", "example.com/*", "t:NoSchedul", "t=v:NoSchedule", "", "own", "own:NoExecute"}, Set: map[string]string{"own": "1"}},
		{Name: "b", Condition: classify.Condition{Clause: classify.Clause{Labels: "later"}}, EnsureAbsent: []string{"x"}, Precedence: classify.RuleWins},
		{Name: "c", Condition: classify.Condition{Clause: classify.Clause{Labels: "!later"}}, EnsureAbsent: []string{"later"}},
	}, field.NewPath("labels", "rules"))
	var got []string
	for _, err := range errs {
		got = append(got, err.Field+" "+string(err.Type))
	}
	const rule = "labels.rules[0].ensureAbsent"
	assert.ElementsMatch(t, []string{
		rule + "[1] FieldValueDuplicate", rule + "[2] FieldValueInvalid", rule + "[3] FieldValueInvalid", rule + "[4] FieldValueInvalid", rule + "[5] FieldValueInvalid", rule + "[5] FieldValueInvalid",
		rule + "[6] FieldValueDuplicate",
		"labels.rules[1].precedence FieldValueForbidden", "labels.rules[1].when.labels FieldValueForbidden", "labels.rules[2].when.labels FieldValueForbidden",
	}, got)
}

func TestRulesKnowWhetherTheyReplaceWhatOthersSet(t *testing.T) {
	assert.False(t, compiled(t, classify.Rule{Name: "a", Set: map[string]string{"k": "v"}}).MayRemoveOrReplace())
	assert.True(t, compiled(t, classify.Rule{Name: "a", Set: map[string]string{"k": "v"}, Precedence: classify.RuleWins}).MayRemoveOrReplace())
	assert.False(t, compiled(t, classify.Rule{Name: "a", EnsureAbsent: []string{"k"}, Mode: classify.Audit}).MayRemoveOrReplace())
	removes := compiled(t, classify.Rule{Name: "a", EnsureAbsent: []string{"k:NoSchedule"}})
	assert.True(t, removes.MayRemoveOrReplace())
	assert.True(t, removes.Sets("k:NoSchedule"), "the annotation lists it")
}
