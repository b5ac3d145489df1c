package webhook

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestTheSecondPassActsOnlyOnWhatTheFirstPassLeft(t *testing.T) {
	const role = "node-role.kubernetes.io/worker"
	remembered := known{current: true, record: record.New("n1", record.Object{}, map[string]string{"dedicated": "ci", role: ""})}
	afterFirstPass := func() incoming {
		return incoming{
			node: "n1", labels: map[string]string{"dedicated": "ci"}, occasion: policy.CreateByKubelet, hasSpec: true, taints: []corev1.Taint{policy.DefaultGate.Taint()},
			annotations: map[string]string{policy.StampAnnotation: record.Stamp{}.Merge(map[string]string{"dedicated": "ci"}, record.Record{}, 0).String()},
		}
	}
	inline := policy.Default().WithProtected(policy.Inline)
	type pass struct {
		incoming
		known
		policy policy.Policy
	}
	for name, c := range map[string]struct {
		change func(p *pass)
		acts   bool
	}{
		"the first pass has been":     {change: func(*pass) {}, acts: true},
		"the first pass has not been": {change: func(p *pass) { p.annotations, p.taints, p.labels = nil, nil, nil }},
		"the stamp cannot be read":    {change: func(p *pass) { p.annotations[policy.StampAnnotation] = "x" }},
		"a record that has become known since has one more": {change: func(p *pass) {
			p.record = record.New("n1", record.Object{}, map[string]string{"dedicated": "ci", role: "", "node-role.kubernetes.io/new": ""})
		}, acts: true},
		"the stamp says nothing": {change: func(p *pass) { p.annotations[policy.StampAnnotation] = "{}" }, acts: true},
		"nothing is missing any more": {change: func(p *pass) {
			p.record = record.New("n1", record.Object{}, map[string]string{"dedicated": "ci"})
		}},
		"another machine registers under the name, and the policy isolates it": {change: func(p *pass) {
			p.policy = load(t, "labels: {protected: inline}\nmachine: {onMismatch: quarantine}")
			p.machine, p.record.Machine = record.Machine{SystemUUID: "here"}, record.Machine{SystemUUID: "there"}
		}},
		"which record the machine follows is not decided yet": {change: func(p *pass) { p.undecided = true }},
		"another machine has the name":                        {change: func(p *pass) { p.record.Quarantined = &record.Record{} }},
		"there is no room for the stamp":                      {change: func(p *pass) { p.annotations["example.com/full"] = strings.Repeat("x", 262_100) }},
		"an ordinary label is missing":                        {change: func(p *pass) { p.labels = nil }},
		"the gate is not on":                                  {change: func(p *pass) { p.taints = nil }},
		"an admin creates the Node":                           {change: func(p *pass) { p.occasion = policy.CreateByOther }},
		"the records may be behind":                           {change: func(p *pass) { p.current = false }},
		"the record cannot be read":                           {change: func(p *pass) { p.unreadable = true }},
		"the policy says deferred":                            {change: func(p *pass) { p.policy = policy.Default() }},
		"the policy says never":                               {change: func(p *pass) { p.policy = p.policy.WithProtected(policy.NeverProtected) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := pass{afterFirstPass(), remembered, inline}
			c.change(&p)
			decided := decideProtected(p.incoming, p.forMachine(p.incoming, p.policy), p.policy)
			operations := patch(p.incoming, decided)
			if !c.acts {
				assert.Empty(t, operations)
				return
			}
			added := len(p.record.Entries) - 1 // but the ordinary label
			assert.Len(t, operations, added+2, "the labels, the stamp, the gate: %v", operations)
			stamp, ok := record.ParseStamp(decided.annotations[policy.StampAnnotation])
			require.True(t, ok)
			assert.Contains(t, stamp.Given, role)
			assert.Zero(t, stamp.Given[role].Version, "it stands in the CREATE")
		})
	}
}

// A rule of the cluster judges the CREATE after the second pass as well.
func TestTheSecondPassLeavesLabelsThatThePolicyDefersBehindTheGate(t *testing.T) {
	const role = "node-role.kubernetes.io/infra"
	p := load(t, "labels: {protected: inline, defer: [dedicated]}\ntaints: {rules: [{selector: dedicated, taint: \"dedicated={value}:NoSchedule\"}]}")
	gate := policy.DefaultGate.Taint()
	for name, c := range map[string]struct {
		remembered map[string]string
		restored   map[string]string
		outcome    outcome
		stamp      string
	}{
		"next to a protected label": {
			map[string]string{"dedicated": "ci", role: ""}, map[string]string{role: ""}, restoredInline,
			`{"given":{"` + role + `":{"value":""}}}`,
		},
		"alone": {map[string]string{"dedicated": "ci"}, nil, nothingMissing, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			k := known{current: true, record: record.New("n1", record.Object{}, c.remembered)}
			in := incoming{node: "n1", occasion: policy.CreateByKubelet, hasSpec: true, taints: []corev1.Taint{gate}}
			first := decide(in, k, p)
			require.Empty(t, first.restored)
			require.Equal(t, c.remembered, first.WithCause(plan.CauseRecord).Deferred().Values())
			require.Equal(t, []corev1.Taint{{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule}}, taintsOf(first), "rules see labels that are to come")
			in.taints = append(in.taints, taintsOf(first)...)
			in.annotations = first.annotations

			second := decideProtected(in, k, p)

			assert.Equal(t, c.outcome, second.outcome)
			assert.Equal(t, c.restored, second.restored)
			assert.Empty(t, second.WithCause(plan.CauseGate), "capture still has to add dedicated")
			assert.JSONEq(t, c.stamp, second.annotations[policy.StampAnnotation])
		})
	}
}

// A kubelet may bring a label as a rule wants it. Then no label waits, whatever the policy defers.
func TestTheSecondPassWaitsForNoLabelThatTheKubeletBroughtAsARuleWantsIt(t *testing.T) {
	const role = "node-role.kubernetes.io/infra"
	p := load(t, "labels: {protected: inline, defer: [size], rules: [{name: size, precedence: rule, set: {size: big}}]}")
	k := known{current: true, record: record.New("n1", record.Object{}, map[string]string{role: ""})}
	for name, c := range map[string]struct {
		brings map[string]string
		lifts  bool
	}{
		"it brings it":     {map[string]string{"size": "big"}, true},
		"it brings none":   {nil, false},
		"it brings others": {map[string]string{"size2": "big"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := incoming{node: "n1", occasion: policy.CreateByKubelet, hasSpec: true, taints: []corev1.Taint{policy.DefaultGate.Taint()}, labels: c.brings}
			in.annotations = decide(in, k, p).annotations

			second := decideProtected(in, k, p)

			assert.Equal(t, map[string]string{role: ""}, second.restored)
			assert.Equal(t, c.lifts, second.LiftsGate())
		})
	}
}

// What the first pass did with taints still stands in the stamp and is shown after the second.
func TestTheSecondPassKeepsWhatTheFirstSaidOfTaints(t *testing.T) {
	const role = "node-role.kubernetes.io/infra"
	p := load(t, "labels: {protected: inline}\ntaints: {rules: [{selector: "+role+", taint: \""+role+":NoSchedule\"}]}")
	k := known{current: true, record: record.New("n1", record.Object{}, map[string]string{"maintenance:NoExecute": "disk", role: ""})}
	in := incoming{node: "n1", occasion: policy.CreateByKubelet}
	first := decide(in, k, p)
	require.True(t, first.ClosesGate())
	in.hasSpec, in.taints = true, first.AddedTaints(nil)
	in.annotations = first.annotations

	second := decideProtected(in, k, p)

	assert.True(t, second.LiftsGate())
	assert.Empty(t, taintsOf(second))
	assert.Equal(t, role+":NoSchedule", second.annotations[policy.TaintsAnnotation])
	assert.JSONEq(t, `{"given":{"`+role+`":{"value":""},"maintenance:NoExecute":{"value":"disk"}}}`, second.annotations[policy.StampAnnotation])
}

// taintsOf returns the taints that a decision adds, but for those of the record.
func taintsOf(d decision) []corev1.Taint {
	return d.WithCause(plan.CauseDerivedTaint, plan.CauseRegistrationTaint).Taints(false)
}
