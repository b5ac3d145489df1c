package impact

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestWhichLabelsOfOperatorsAreHandedOverToARule(t *testing.T) {
	const worker = "node-role.kubernetes.io/worker"
	const gold = "labels: {rules: [{name: high, when: {names: [n1]}, set: {tier: gold}}]}"
	adopts := func(value, rule string) *AdoptedLabel { return &AdoptedLabel{Node: "n1", Value: value, Rule: rule} }
	left := func(value, rule, reason string) *AdoptedLabel {
		return &AdoptedLabel{Node: "n1", Value: value, Rule: rule, Reason: reason}
	}
	tier, iron := set{"tier": "gold"}, set{"tier": "iron"}
	for name, c := range map[string]struct {
		policy    string
		state     nodestate.State
		key, rule string
		unguarded bool
		want      *AdoptedLabel
		adopted   bool
	}{
		"an operator set what the rule derives": {state: statetest.State(statetest.Live(tier), statetest.Recorded(tier)), want: adopts("gold", "high")},
		"nodekeep has restored it on this object": {
			state: statetest.State(statetest.Live(tier, func(n *corev1.Node) {
				n.Annotations = set{policy.StampAnnotation: record.Stamp{}.Merge(tier, record.Record{}, 0).String()}
			}), statetest.Recorded(tier, statetest.OfAnother)), want: adopts("gold", "high"),
		},
		"a record of an earlier object, and nothing shows that nodekeep has restored it": {
			state: statetest.State(statetest.Live(tier), statetest.Recorded(tier, statetest.OfAnother)),
			want:  left("gold", "high", "the record does not show yet who set it on this Node object; run this again"),
		},
		"capture has not recorded it yet":            {state: statetest.State(statetest.Live(tier), nil), want: adopts("gold", "high")},
		"only the rule that is named, which it is":   {state: statetest.State(statetest.Live(tier), statetest.Recorded(tier)), rule: "high", want: adopts("gold", "high")},
		"only the rule that is named, which another": {state: statetest.State(statetest.Live(tier), statetest.Recorded(tier)), rule: "low", want: left("gold", "high", "another rule decides")},
		"another value":                           {state: statetest.State(statetest.Live(iron), statetest.Recorded(iron)), want: left("iron", "high", `the rule derives "gold"`)},
		"the rule has set it":                     {state: statetest.State(statetest.Live(tier, statetest.RuledBy("high", tier)), statetest.Recorded(nil)), adopted: true},
		"the Node has no such label":              {state: statetest.State(statetest.Live(nil), statetest.Recorded(nil))},
		"the Node is deleted":                     {state: statetest.State(nil, statetest.Recorded(tier, statetest.GoneSince(1))), want: left("gold", "", "the Node is deleted; run this again when it has registered")},
		"a Node that is deleted and never had it": {state: statetest.State(nil, statetest.Recorded(nil, statetest.GoneSince(1)))},
		"no rule is true of the Node": {
			policy: "labels: {rules: [{name: high, when: {names: [other]}, set: {tier: gold}}]}", state: statetest.State(statetest.Live(tier), statetest.Recorded(tier)), want: left("gold", "", "no rule sets it on this Node"),
		},
		"a fact is not known": {
			policy: "labels: {rules: [{name: high, when: {capacity: {cpu: '>=4'}}, set: {tier: gold}}]}", state: statetest.State(statetest.Live(tier), statetest.Recorded(tier)), want: left("gold", "high", "a fact that the rule asks for is not known"),
		},
		"a rule with precedence has listed it, and the record has the operator's": {
			policy: "labels: {rules: [{name: high, set: {tier: gold}, precedence: rule}]}", state: statetest.State(statetest.Live(tier, statetest.RuledBy("high", tier)), statetest.Recorded(tier)), want: adopts("gold", "high"),
		},
		"a rule with precedence hides another value": {
			policy: "labels: {rules: [{name: high, set: {tier: gold}, precedence: rule}]}", state: statetest.State(statetest.Live(tier, statetest.RuledBy("high", tier)), statetest.Recorded(iron)),
			want: left("iron", "high", `the record has another value, which the rule's value "gold" hides`),
		},
		"nobody has decided between two machines": {state: statetest.State(statetest.Live(tier), statetest.Recorded(tier, statetest.Quarantining(tier))), want: left("gold", "", "an operator must decide between two machines of this name: nodekeep accept record")},
		"a protected label": {
			policy: "labels: {rules: [{name: w, when: {names: [n1]}, set: {" + worker + ": ''}}]}", key: worker, state: statetest.State(statetest.Live(set{worker: ""}), statetest.Recorded(set{worker: ""})), want: adopts("", "w"),
		},
		"a protected label while a kubelet can write the annotation": {
			policy: "labels: {rules: [{name: w, when: {names: [n1]}, set: {" + worker + ": ''}}]}", key: worker, unguarded: true,
			state: statetest.State(statetest.Live(set{worker: ""}), statetest.Recorded(set{worker: ""})),
			want:  left("", "w", "the guard policies are not in force, so a kubelet could hand over a label that it may not set"),
		},
		"the annotations have no room": {
			state: statetest.State(statetest.Live(tier, func(n *corev1.Node) { n.Annotations = set{"big": string(make([]byte, 256<<10-20))} }), statetest.Recorded(tier)),
			want:  left("gold", "high", "the annotations of the Node have no room for the list of labels that rules set"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.policy == "" {
				c.policy = gold
			}
			if c.key == "" {
				c.key = "tier"
			}
			inputs := statetest.Under(statetest.Load(t, c.policy))
			inputs.GuardInForce = !c.unguarded
			label, adopted := PlanAdoption(c.state, c.key, c.rule, inputs)
			assert.Equal(t, c.want, label)
			assert.Equal(t, c.adopted, adopted)
		})
	}
}
