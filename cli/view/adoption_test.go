package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// ruledBy lists labels of a Node as those of a rule.
func ruledBy(rule string, labels set) func(*corev1.Node) {
	derived := map[string]record.Derived{}
	for key, value := range labels {
		derived[key] = record.Derived{Value: value, Rule: rule, Since: 8}
	}
	return func(n *corev1.Node) { n.Annotations = policy.Own{Labels: derived}.Annotations(0) }
}

func TestWhichLabelsOfOperatorsAreHandedOverToARule(t *testing.T) {
	const worker = "node-role.kubernetes.io/worker"
	const gold = "labels: {rules: [{name: high, when: {names: [n1]}, set: {tier: gold}}]}"
	adopts := func(value, rule string) *AdoptedLabel { return &AdoptedLabel{Node: "n1", Value: value, Rule: rule} }
	left := func(value, rule, why string) *AdoptedLabel {
		return &AdoptedLabel{Node: "n1", Value: value, Rule: rule, Why: why}
	}
	tier, iron := set{"tier": "gold"}, set{"tier": "iron"}
	for name, c := range map[string]struct {
		policy    string
		state     NodeState
		key, rule string
		unguarded bool
		want      *AdoptedLabel
		already   bool
	}{
		"an operator set what the rule derives": {state: state(live(tier), recorded(tier)), want: adopts("gold", "high")},
		"nodekeep has restored it on this object": {
			state: state(live(tier, func(n *corev1.Node) {
				n.Annotations = set{policy.StampAnnotation: record.Stamp{}.With(tier, record.Record{}, 0).String()}
			}), recorded(tier, ofAnother)), want: adopts("gold", "high"),
		},
		"a record of an earlier object, and nothing shows that nodekeep has restored it": {
			state: state(live(tier), recorded(tier, ofAnother)),
			want:  left("gold", "high", "the record does not show yet who set it on this Node object; run this again"),
		},
		"capture has not recorded it yet":            {state: state(live(tier), nil), want: adopts("gold", "high")},
		"only the rule that is named, which it is":   {state: state(live(tier), recorded(tier)), rule: "high", want: adopts("gold", "high")},
		"only the rule that is named, which another": {state: state(live(tier), recorded(tier)), rule: "low", want: left("gold", "high", "another rule decides")},
		"another value":                           {state: state(live(iron), recorded(iron)), want: left("iron", "high", `the rule derives "gold"`)},
		"the rule has set it":                     {state: state(live(tier, ruledBy("high", tier)), recorded(nil)), already: true},
		"the Node has no such label":              {state: state(live(nil), recorded(nil))},
		"the Node is deleted":                     {state: state(nil, recorded(tier, goneSince(1))), want: left("gold", "", "the Node is deleted; run this again when it has registered")},
		"a Node that is deleted and never had it": {state: state(nil, recorded(nil, goneSince(1)))},
		"no rule is true of the Node": {
			policy: "labels: {rules: [{name: high, when: {names: [other]}, set: {tier: gold}}]}", state: state(live(tier), recorded(tier)), want: left("gold", "", "no rule sets it on this Node"),
		},
		"a fact is not known": {
			policy: "labels: {rules: [{name: high, when: {capacity: {cpu: '>=4'}}, set: {tier: gold}}]}", state: state(live(tier), recorded(tier)), want: left("gold", "high", "a fact that the rule asks for is not known"),
		},
		"a rule with precedence has listed it, and the record has the operator's": {
			policy: "labels: {rules: [{name: high, set: {tier: gold}, precedence: rule}]}", state: state(live(tier, ruledBy("high", tier)), recorded(tier)), want: adopts("gold", "high"),
		},
		"a rule with precedence hides another value": {
			policy: "labels: {rules: [{name: high, set: {tier: gold}, precedence: rule}]}", state: state(live(tier, ruledBy("high", tier)), recorded(iron)),
			want: left("iron", "high", `the record has another value, which the rule's value "gold" hides`),
		},
		"nobody has decided between two machines": {state: state(live(tier), recorded(tier, quarantining(tier))), want: left("gold", "", "an operator must decide between two machines of this name: nodekeep accept")},
		"a protected label": {
			policy: "labels: {rules: [{name: w, when: {names: [n1]}, set: {" + worker + ": ''}}]}", key: worker, state: state(live(set{worker: ""}), recorded(set{worker: ""})), want: adopts("", "w"),
		},
		"a protected label while a kubelet can write the annotation": {
			policy: "labels: {rules: [{name: w, when: {names: [n1]}, set: {" + worker + ": ''}}]}", key: worker, unguarded: true,
			state: state(live(set{worker: ""}), recorded(set{worker: ""})),
			want:  left("", "w", "the guard policies are not in force, so a kubelet could hand over a label that it may not set"),
		},
		"the annotations have no room": {
			state: state(live(tier, func(n *corev1.Node) { n.Annotations = set{"big": string(make([]byte, 256<<10-20))} }), recorded(tier)),
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
			in := under(load(t, c.policy))
			in.Guarded = !c.unguarded
			label, already := c.state.Adopts(c.key, c.rule, in)
			assert.Equal(t, c.want, label)
			assert.Equal(t, c.already, already)
		})
	}
}

func TestLabelsThatAreHandedOverAreCountedByValueAndRule(t *testing.T) {
	a := Adoption{Key: "tier", Already: 1}
	for _, node := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
		a.Adopt = append(a.Adopt, AdoptedLabel{Node: node, Value: "gold", Rule: "high"})
	}
	a.Adopt = append(a.Adopt, AdoptedLabel{Node: "n7", Value: "iron", Rule: "low"})
	d := a.Document(now)
	assert.Equal(t, [][]any{{"gold", "high", 6, "n1,n2,n3,n4,n5"}, {"iron", "low", 1, "n7"}}, rowsOf(d.Tables[0]))
	assert.Empty(t, d.Tables[1].Rows)
}

func rowsOf(table *metav1.Table) (rows [][]any) {
	for _, row := range table.Rows {
		rows = append(rows, row.Cells)
	}
	return rows
}
