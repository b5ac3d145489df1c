package webhook

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestWhileRulesAreHeldTheyOnlyAddLabelsToANodeThatRegisters(t *testing.T) {
	const leftOver, taint = "installer.example.com/left-over", "installer.example.com/slow:NoSchedule"
	old := map[string]record.RuleLabel{"tier": {Value: "one", Rule: "old"}}
	removed := map[string]record.RuleLabel{leftOver: {Rule: "old", Absent: true}}
	const two, big, wins = "{name: new, set: {tier: two}}", "{name: new, set: {size: big}}", "{name: new, set: {tier: two}, precedence: rule}"
	const clean = "{name: new, ensureAbsent: [" + leftOver + ", \"" + taint + "\"]}"
	type labels = map[string]string
	for name, c := range map[string]struct {
		rules    string
		derived  map[string]record.RuleLabel // in the record
		recorded labels                      // by clients
		brings   labels
		foreign  bool // another machine has the name
		held     labels
		inForce  labels
	}{
		"another value":                {rules: two, derived: old, held: labels{"tier": "one"}, inForce: labels{"tier": "two"}},
		"a label that had none":        {rules: big, derived: old, held: labels{"tier": "one", "size": "big"}, inForce: labels{"size": "big"}},
		"no rules any more":            {derived: old, held: labels{"tier": "one"}, inForce: labels{}},
		"another machine":              {rules: two, derived: old, foreign: true, held: labels{"tier": "two"}, inForce: labels{"tier": "two"}},
		"a label that the Node brings": {derived: old, brings: labels{"tier": "mine"}, held: labels{"tier": "mine"}, inForce: labels{"tier": "mine"}},
		"a rule that won before still wins over what the Node brings": {rules: wins, derived: map[string]record.RuleLabel{"tier": {Value: "two", Rule: "new"}}, brings: labels{"tier": "mine"}, held: labels{"tier": "two"}, inForce: labels{"tier": "two"}},
		"a rule that wins over what the Node brings":                  {rules: wins, brings: labels{"tier": "mine"}, held: labels{"tier": "mine"}, inForce: labels{"tier": "two"}},
		"a rule that wins over what is restored":                      {rules: wins, recorded: labels{"tier": "mine"}, held: labels{"tier": "mine"}, inForce: labels{"tier": "two"}},
		"a removal of what the Node brings":                           {rules: clean, brings: labels{leftOver: ""}, held: labels{leftOver: ""}, inForce: labels{}},
		"a removal of what is restored":                               {rules: clean, recorded: labels{leftOver: ""}, held: labels{leftOver: ""}, inForce: labels{}},
		"what the last rules removed":                                 {derived: removed, brings: labels{leftOver: ""}, held: labels{}, inForce: labels{leftOver: ""}},
		"a removal of what the Node does not":                         {rules: clean, held: labels{}, inForce: labels{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, "labels: {rules: ["+c.rules+"]}")
			k := known{current: true, record: record.New("n1", record.Object{}, c.recorded)}
			k.record.RuleLabels, k.record.Machine = c.derived, record.Machine{SystemUUID: "a"}
			installers := corev1.Taint{Key: "installer.example.com/slow", Effect: corev1.TaintEffectNoSchedule}
			in := incoming{node: "n1", occasion: policy.CreateByKubelet, hasSpec: true, labels: c.brings, taints: []corev1.Taint{installers}, machine: record.Machine{SystemUUID: "a"}}
			if c.foreign {
				in.machine.SystemUUID = "b"
			}

			held, inForce := decide(in, k, p.WithRulesHeld(true)), decide(in, k, p)

			assert.Equal(t, c.held, labelsAfter(in, held), "held")
			assert.Equal(t, c.inForce, labelsAfter(in, inForce), "in force")
			assert.NotContains(t, held.RuleLabelsInCreate(), taint, "no taint is removed")
			assert.Equal(t, c.rules == clean, inForce.RuleLabelsInCreate()[taint].Absent)
		})
	}
}

// labelsAfter returns the labels of a Node once all is done.
func labelsAfter(in incoming, d decision) labels {
	next := labels{}
	for item, value := range d.ItemsAfter(in.observed(policy.Default())) {
		if record.IsLabel(item) {
			next[item] = value
		}
	}
	return next
}

// A kubelet can claim to be the machine that had its name.
func TestWhileRulesAreHeldAKubeletStillCarriesNoProtectedLabelInItsOwnCREATE(t *testing.T) {
	const role = "node-role.kubernetes.io/gpu"
	k := known{current: true, record: record.New("n1", record.Object{}, nil)}
	k.record.RuleLabels, k.record.Machine = map[string]record.RuleLabel{role: {Rule: "old"}}, record.Machine{SystemUUID: "a"}
	in := incoming{node: "n1", occasion: policy.CreateByKubelet, hasSpec: true, machine: record.Machine{SystemUUID: "a"}}

	held := decide(in, k, policy.Default().WithRulesHeld(true))

	assert.Empty(t, held.RuleLabelsInCreate())
	assert.Contains(t, held.DeferredRuleLabels(), role)
	assert.True(t, held.ClosesGate(), "capture decides")
}
