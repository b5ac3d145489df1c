package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

const tiers = `labels: {rules: [
  {name: gpu, when: {capacity: {x.com/gpu: ">=1"}}, set: {gpu: "yes"}},
  {name: big, when: {capacity: {cpu: ">=16"}}, set: {tier: big}},
  {name: rest, set: {tier: standard}},
  {name: taken, set: {mine: rule}}]}`

func small(n *corev1.Node) {
	n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}
}

func TestAnExplanationSaysWhyEachRuleSetsALabelOrNot(t *testing.T) {
	inputs := statetest.Under(statetest.Load(t, tiers))
	inputs.GuardInForce = true
	s := statetest.State(statetest.Live(set{"mine": "1"}, small), statetest.Recorded(set{"mine": "1"}))
	got := map[string]string{}
	e := explained(t, s, inputs)
	for _, rule := range e.Rules {
		got[rule.Rule+" "+rule.Key] = rule.Reason
	}
	assert.Equal(t, map[string]string{
		"gpu gpu":    "not known: capacity.x.com/gpu is not known until 2026-05-04T03:06:01Z (wanted: >=1); later rules wait",
		"big tier":   "false: capacity.cpu is 8 (wanted: >=16)",
		"rest tier":  "true: it is for every Node",
		"taken mine": "the Node has the label from an operator or its kubelet, which stays; the rule is true: it is for every Node",
	}, got)
	assert.Len(t, e.Document(now).Tables, 2, "the text shows the rules, too")
}

func TestAnExplanationSaysWhyAFeatureIsNotKnown(t *testing.T) {
	inputs := statetest.Under(statetest.Load(t, `labels: {rules: [{name: avx, when: {features: {cpu.cpuid.AVX: "*"}}, set: {avx: "yes"}}, {name: resize, when: {features: {Resize: "*"}}, set: {resize: "yes"}}]}`))
	reason := func() string {
		rules := explained(t, statetest.State(statetest.Live(nil, small), statetest.Recorded(nil)), inputs).Rules
		require.Len(t, rules, 2)
		assert.Contains(t, rules[1].Reason, "feature Resize is not known: status.declaredFeatures of the Node is empty")
		return rules[0].Reason
	}
	assert.Contains(t, reason(), "feature cpu.cpuid.AVX is not known: no NodeFeature object of the Node has cpu.cpuid, or the objects cannot be read (wanted: *)")
	inputs.Features = func(string) observe.Features { return observe.FeaturesOf(nil) }
	assert.Contains(t, reason(), "feature cpu.cpuid.AVX is not known: no NodeFeature object of the Node has cpu.cpuid")
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"features": map[string]any{"flags": map[string]any{"cpu.cpuid": map[string]any{}}}}}}
	inputs.Features = func(string) observe.Features {
		return observe.FeaturesOf([]*observe.NodeFeature{observe.NodeFeatureOf(object, inputs.Policy.LabelRules().NodeFeatures())})
	}
	assert.Contains(t, reason(), "feature cpu.cpuid.AVX is not known until 2026-05-04T03:06:01Z")
}

func TestAnExplanationSaysThatAnnotationsLeaveNoRoom(t *testing.T) {
	inputs := statetest.Under(statetest.Load(t, "labels: {rules: [{name: rest, set: {tier: standard}}]}"))
	full := func(n *corev1.Node) { n.Annotations = map[string]string{"big": string(make([]byte, 256<<10))} }
	s := statetest.State(statetest.Live(nil, full), statetest.Recorded(nil))
	assert.Equal(t, "not set: the annotations of the Node leave no room to list labels of rules", explained(t, s, inputs).Rules[0].Reason)
}

func TestDiffNamesTheRuleOfALabel(t *testing.T) {
	inputs := statetest.Under(statetest.Load(t, tiers))
	inputs.GuardInForce = true
	listed := func(n *corev1.Node) {
		n.Annotations = map[string]string{policy.LabelsAnnotation: `{"old":{"value":"1","rule":"former"}}`}
	}
	got := map[string]string{}
	for _, item := range Diff(statetest.State(statetest.Live(set{"old": "1"}, small, listed), statetest.Recorded(nil)), inputs).Items {
		got[item.Item] = item.Reason
	}
	assert.Equal(t, `rule rest is to set it to "standard"`, got["tier"])
	assert.Equal(t, "rule former has set it, and no rule sets it now: to be removed", got["old"])
}

func TestARecordShowsLabelsOfRules(t *testing.T) {
	r := statetest.Recorded(nil, func(r *record.Record) {
		r.RuleLabels = map[string]record.RuleLabel{"tier": {Value: "big", Rule: "high", End: now}}
	})
	shown, err := RecordOf(statetest.State(nil, r), "ns", statetest.Under(statetest.Load(t, "")))
	require.NoError(t, err)
	tables := shown.Document(now).Tables
	assert.Equal(t, []any{"tier", "big", "high", "2026-05-04T03:02:01Z"}, tables[len(tables)-1].Rows[0].Cells)
	assert.Contains(t, string(shown.Record), `"rule": "high"`, "programs see it, too")
}

func TestAnExplanationNamesTheComponentThatClaimsAnItem(t *testing.T) {
	claimed := func(n *corev1.Node) {
		n.Annotations = map[string]string{"cluster.x-k8s.io/taints-from-machine": "a:NoSchedule", "talos.dev/owned-labels": `["role"]`}
	}
	inputs := statetest.Under(statetest.Load(t, ""))
	s := statetest.State(statetest.Live(set{"a:NoSchedule": "1", "role": "db", "free": "1"}, claimed), nil)
	got := map[string][]string{}
	for _, item := range explained(t, s, inputs).Items {
		if item.OnNode == nil { // what only a registration has
			continue
		}
		got[item.Item] = item.Claims
		assert.True(t, item.Kept, "a claim is not obeyed: %s", item.Item)
	}
	assert.Equal(t, map[string][]string{
		"a:NoSchedule": {"Cluster API claims it (annotation cluster.x-k8s.io/taints-from-machine)"},
		"role":         {"Talos claims it (annotation talos.dev/owned-labels)"}, "free": nil,
	}, got)
}
