package capture

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

type derivedLabels = map[string]record.RuleLabel

// ruledBy returns labels that a rule has set.
func ruledBy(rule string, labels labels) derivedLabels {
	derived := derivedLabels{}
	for key, value := range labels {
		derived[key] = record.RuleLabel{Value: value, Rule: rule}
	}
	return derived
}

// listing returns the annotation that lists labels of rules, as they were left by a PATCH of the state before.
func listing(derived derivedLabels) func(*corev1.Node) {
	return func(n *corev1.Node) {
		version, listed := observe.FromNode(n).Version-1, maps.Clone(derived)
		for key, label := range listed {
			label.Version = version
			listed[key] = label
		}
		annotated(policy.LabelsAnnotation, policy.AnnotationContent{Labels: listed}.Annotations(0)[policy.LabelsAnnotation])(n)
	}
}

// gpus has the kubelet report so many, of a Node that has been ready for so long; 0: it is not ready.
func gpus(count string, ready time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse(count)}
		if ready > 0 {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ready))}}
		}
	}
}

// withDerived returns what a record keeps of the labels of rules.
func withDerived(derived derivedLabels) func(*record.Record) {
	return func(r *record.Record) { r.RuleLabels = derived }
}

// onMachine says whose record it is.
func onMachine(r *record.Record) { r.Machine.SystemUUID = "m" }

const (
	tierRule     = "labels:\n  rules:\n  - {name: tier, set: {tier: gold}}\n"
	ruleThatWins = "labels:\n  rules:\n  - {name: tier, set: {tier: gold}, precedence: rule}\n"
	workerRule   = "labels:\n  rules:\n  - {name: w, when: {names: [other]}, set: {" + worker + ": \"\"}}\n"
	gpuRule      = "labels:\n  rules:\n  - {name: gpu, when: {capacity: {nvidia.com/gpu: \">=1\"}}, set: {gpu: \"{capacity.nvidia.com/gpu}\"}}\n  - {name: none, set: {gpu: none}}\n"
)

// ruling is what the rules of a policy change on a Node.
type ruling struct {
	policy          string
	record          *record.Record // nil: there is none
	node            *corev1.Node
	unguarded, held bool
	refused         string

	label   labels
	unlabel []string
	lists   derivedLabels
	relist  bool
	waits   time.Duration // until the rules are asked again
	denied  bool          // a label of them was refused
	noRoom  []string
	drifted []string
}

func (c ruling) planInputs(t *testing.T) plan.Inputs {
	t.Helper()
	return plan.Inputs{Policy: loadPolicy(t, c.policy).WithRulesHeld(c.held), GuardInForce: !c.unguarded, Refused: map[string]bool{c.refused: c.refused != ""}, Now: now}
}

func (c ruling) recorded() record.Record {
	if c.record == nil {
		return record.Record{}
	}
	return *c.record
}

// check returns the change, whose labels are as they should be.
func (c ruling) check(t *testing.T) (got plan.Plan) {
	t.Helper()
	n, r, inputs := observe.FromNode(c.node), c.recorded(), c.planInputs(t)
	got = plan.ForLive(r, r, n, n.Observation(r, inputs.Policy, inputs.GuardInForce), inputs)
	assert.Equal(t, c.label, got.RuleEdits().Values(), "set")
	assert.Equal(t, c.unlabel, got.RuleEdits().Removed(), "removed")
	if len(c.lists) > 0 || len(got.RuleLabels) > 0 {
		assert.Equal(t, c.lists, got.RuleLabels, "listed")
	}
	assert.Equal(t, c.relist, got.WriteLabelsAnnotation, "listed anew")
	behind := c.node.DeepCopy()
	behind.Spec.Taints = append(behind.Spec.Taints, gate.Taint())
	n = observe.FromNode(behind)
	lifts := plan.ForLive(r, r, n, n.Observation(r, inputs.Policy, inputs.GuardInForce), inputs).LiftsGate()
	assert.Equal(t, !c.denied && len(c.noRoom) == 0, lifts, "the gate waits for a label, and for no removal")
	assert.Equal(t, c.noRoom, got.LabelsWithoutRoom)
	assert.Equal(t, c.waits, got.RequeueAfter)
	return got
}

func TestWhatRulesChangeOnANode(t *testing.T) {
	for name, c := range map[string]ruling{
		"a label that is missing is set and listed": {
			policy: tierRule, node: node("a", "10", nil),
			label: labels{"tier": "gold"}, lists: ruledBy("tier", labels{"tier": "gold"}), relist: true,
		},
		"a label that is as the rule says is left alone": {
			policy: tierRule, node: node("a", "10", labels{"tier": "gold"}, listing(ruledBy("tier", labels{"tier": "gold"}))),
			lists: ruledBy("tier", labels{"tier": "gold"}),
		},
		"another rule sets the same: it is listed anew": {
			policy: tierRule, node: node("a", "10", labels{"tier": "gold"}, listing(ruledBy("other", labels{"tier": "gold"}))),
			lists: ruledBy("tier", labels{"tier": "gold"}), relist: true,
		},
		"an operator's label stays": {
			policy: tierRule, node: node("a", "10", labels{"tier": "iron"}),
		},
		"a label that an operator has changed since is the operator's": {
			policy: tierRule, node: node("a", "10", labels{"tier": "iron"}, listing(ruledBy("tier", labels{"tier": "gold"}))),
			relist: true,
		},
		"a rule that wins replaces an operator's label": {
			policy: ruleThatWins, node: node("a", "10", labels{"tier": "iron"}),
			label: labels{"tier": "gold"}, lists: ruledBy("tier", labels{"tier": "gold"}), relist: true,
		},
		"without its rule a label goes": {
			node:    node("a", "10", labels{"tier": "gold"}, listing(ruledBy("tier", labels{"tier": "gold"}))),
			unlabel: []string{"tier"}, relist: true,
		},
		"without its rule a label gets back the value that an operator gave it": {
			node: node("a", "10", labels{"tier": "gold"}, listing(ruledBy("tier", labels{"tier": "gold"}))), record: remembered("a", 9, labels{"tier": "iron"}),
			label: labels{"tier": "iron"}, relist: true,
		},
		"a rule that gives way leaves an operator's value that another rule had replaced": {
			policy: tierRule,
			node:   node("a", "10", labels{"tier": "platinum"}, listing(ruledBy("tier", labels{"tier": "platinum"}))), record: remembered("a", 9, labels{"tier": "iron"}),
			label: labels{"tier": "iron"}, relist: true,
		},
		"held: a label without its rule stays": {
			held: true, node: node("a", "10", labels{"tier": "gold"}, listing(ruledBy("tier", labels{"tier": "gold"}))),
			lists: ruledBy("tier", labels{"tier": "gold"}),
		},
		"held: a label that is missing is set": {
			held: true, policy: tierRule, node: node("a", "10", labels{"rack": "r1"}, listing(ruledBy("rack", labels{"rack": "r1"}))),
			label: labels{"tier": "gold"}, lists: derivedLabels{"tier": {Value: "gold", Rule: "tier"}, "rack": {Value: "r1", Rule: "rack"}}, relist: true,
		},
		"held: another value waits": {
			held: true, policy: tierRule, node: node("a", "10", labels{"tier": "iron"}, listing(ruledBy("tier", labels{"tier": "iron"}))),
			lists: ruledBy("tier", labels{"tier": "iron"}),
		},
		"held: a label that a rule which wins has set before is set again": {
			held: true, policy: ruleThatWins, node: node("a", "10", labels{"tier": "iron"}, listing(ruledBy("tier", labels{"tier": "gold"}))),
			label: labels{"tier": "gold"}, lists: ruledBy("tier", labels{"tier": "gold"}), relist: true,
		},
		"held: an operator's label stays, though the new rule wins": {
			held: true, policy: ruleThatWins, node: node("a", "10", labels{"tier": "iron"}),
		},
		"held: the same machine has registered, and gets what rules set on it last": {
			held: true, policy: tierRule, node: node("b", "10", nil, machine("m")),
			record: remembered("a", 9, nil, withDerived(ruledBy("rack", labels{"rack": "r1", worker: ""})), onMachine),
			label:  labels{"tier": "gold", "rack": "r1", worker: ""}, relist: true,
			lists: derivedLabels{"tier": {Value: "gold", Rule: "tier"}, "rack": {Value: "r1", Rule: "rack"}, worker: {Rule: "rack"}},
		},
		"held: the same machine has registered, and there are no rules any more": {
			held: true, node: node("b", "10", nil, machine("m")),
			record: remembered("a", 9, labels{"rack": "r0"}, withDerived(ruledBy("rack", labels{"rack": "r1"})), onMachine),
			label:  labels{"rack": "r1"}, lists: ruledBy("rack", labels{"rack": "r1"}), relist: true,
		},
		"held: another machine has registered, and gets what the new rules say": {
			held: true, policy: tierRule, node: node("b", "10", nil, machine("n")),
			record: remembered("a", 9, nil, withDerived(ruledBy("rack", labels{"rack": "r1"})), onMachine),
			label:  labels{"tier": "gold"}, lists: ruledBy("tier", labels{"tier": "gold"}), relist: true,
		},
		"held: what a Node brings at its registration stays": {
			held: true, node: node("b", "10", labels{"rack": "mine"}, machine("m")),
			record: remembered("a", 9, nil, withDerived(ruledBy("rack", labels{"rack": "r1"})), onMachine),
		},
		"held: what a client removed from this very object stays off": {
			held: true, node: node("a", "10", nil, listing(ruledBy("rack", labels{"rack": "r1"}))),
			record: remembered("a", 9, nil, withDerived(ruledBy("rack", labels{"rack": "r1"}))), relist: true,
		},
		"held: what the last rules removed and an installer has put back is removed": {
			held: true, node: node("b", "10", labels{"joined": ""}, machine("m")),
			record:  remembered("a", 9, nil, withDerived(derivedLabels{"joined": {Rule: "clean", Absent: true}}), onMachine),
			unlabel: []string{"joined"}, lists: derivedLabels{"joined": {Rule: "clean", Absent: true}}, relist: true,
		},
		"a label that the API server refused is not set": {
			policy: tierRule, node: node("a", "10", nil), refused: "tier",
			denied: true,
		},
		"a removal that the API server refused is not tried again": {
			node: node("a", "10", labels{"tier": "gold"}, listing(ruledBy("tier", labels{"tier": "gold"}))), refused: "tier",
			lists: ruledBy("tier", labels{"tier": "gold"}),
		},
		"no room to list a label: it is not set, and the gate waits for it": {
			policy: tierRule, node: node("a", "10", nil, withoutRoom), noRoom: []string{"tier"},
		},
		"no room any more: a label that a rule has set stays": {
			policy: tierRule, node: node("a", "10", labels{"tier": "gold"}, withoutRoom, listing(ruledBy("tier", labels{"tier": "gold"}))),
			lists: ruledBy("tier", labels{"tier": "gold"}),
		},
		"no room any more: another value waits, and the label stays as it is": {
			policy: tierRule, node: node("a", "10", labels{"tier": "iron"}, withoutRoom, listing(ruledBy("tier", labels{"tier": "iron"}))),
			lists: ruledBy("tier", labels{"tier": "iron"}), noRoom: []string{"tier"},
		},
		"whether there is a GPU is not known yet: the default does not come first, and the rules are asked again": {
			policy: gpuRule, node: node("a", "10", nil, gpus("0", time.Minute)),
			waits: 4*time.Minute - 6, // now has 6 ns more than the second that the kubelet reports
		},
		"a GPU Node whose plugin has not registered yet keeps what the record has": {
			policy: gpuRule, node: node("b", "10", nil, gpus("0", 0)), record: remembered("b", 9, nil, withDerived(ruledBy("gpu", labels{"gpu": "2"}))),
			label: labels{"gpu": "2"}, lists: ruledBy("gpu", labels{"gpu": "2"}), relist: true,
		},
		"what the record has of another object and no known machine does not count": {
			policy: gpuRule, node: node("b", "10", nil, gpus("0", 0)), record: remembered("a", 9, nil, withDerived(ruledBy("gpu", labels{"gpu": "2"}))),
		},
		"what the record has of another object of the same machine counts": {
			policy: gpuRule, node: node("b", "10", nil, gpus("0", 0), machine("m")),
			record: remembered("a", 9, nil, withDerived(ruledBy("gpu", labels{"gpu": "2"})), onMachine),
			label:  labels{"gpu": "2"}, lists: ruledBy("gpu", labels{"gpu": "2"}), relist: true,
		},
		"the GPUs are missing: the label is held for five minutes": {
			policy: gpuRule, node: node("a", "10", labels{"gpu": "2"}, gpus("0", time.Hour), listing(ruledBy("gpu", labels{"gpu": "2"}))),
			lists: derivedLabels{"gpu": {Value: "2", Rule: "gpu", End: now.Add(5 * time.Minute).Truncate(time.Second)}}, relist: true,
			waits: 5*time.Minute - 6,
		},
		"and then the next rule says what it is": {
			policy: gpuRule, node: node("a", "10", labels{"gpu": "2"}, gpus("0", time.Hour), listing(derivedLabels{"gpu": {Value: "2", Rule: "gpu", End: now.Add(-time.Second)}})),
			label: labels{"gpu": "none"}, lists: ruledBy("none", labels{"gpu": "none"}), relist: true,
		},
		"without guard policies: a list of a protected label that the record does not have is not believed": {
			unguarded: true, policy: workerRule, node: node("a", "10", labels{worker: ""}, listing(ruledBy("w", labels{worker: ""}))),
			relist: true,
		},
		"without guard policies: a list of a protected label that the record has is believed": {
			unguarded: true, policy: workerRule, node: node("a", "10", labels{worker: ""}, listing(ruledBy("w", labels{worker: ""}))),
			record:  remembered("a", 9, nil, withDerived(ruledBy("w", labels{worker: ""}))),
			unlabel: []string{worker}, relist: true,
		},
		"without guard policies: a list of what no rule sets is not believed": {
			unguarded: true, node: node("a", "10", labels{"tier": "gold"}, listing(ruledBy("tier", labels{"tier": "gold"}))),
			relist: true,
		},
		"without guard policies: a list of what an operator set is not believed": {
			unguarded: true, policy: gpuRule, node: node("a", "10", labels{"gpu": "7"}, gpus("2", time.Hour), listing(ruledBy("gpu", labels{"gpu": "7"}))), record: remembered("a", 9, labels{"gpu": "7"}),
			relist: true,
		},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

// The webhook was down, or leaves the label to capture.
func TestWhileRulesAreHeldCaptureRestoresWhatTheyWouldRemove(t *testing.T) {
	p := loadPolicy(t, "labels:\n  rules:\n  - {name: clean, ensureAbsent: [tier]}\n")
	entry := store.Entry{Record: *remembered("a", 9, labels{"tier": "gold"})}
	registered := observe.FromNode(node("b", "10", nil, gated))
	for held, restored := range map[bool]string{true: "gold", false: ""} {
		action := Decide(entry, true, registered, NodePresent, plan.Inputs{Policy: p.WithRulesHeld(held), GuardInForce: true, Now: now})
		assert.Equal(t, restored, action.WithCause(plan.CauseRecord).Values()["tier"], "held: %v", held)
	}
}

func TestTheGateStaysWhileLabelsOfRulesHaveNoRoom(t *testing.T) {
	p := loadPolicy(t, tierRule)
	inputs := plan.Inputs{Policy: p, GuardInForce: true, Now: now}
	entry := store.Entry{Record: *remembered("a", 10, nil, withDerived(ruledBy("tier", labels{"tier": "gold"})))}

	action := Decide(entry, true, observe.FromNode(node("a", "10", nil, gated, withoutRoom)), NodePresent, inputs)
	assert.False(t, action.LiftsGate())
	assert.Equal(t, []string{"tier"}, action.LabelsWithoutRoom)

	action = Decide(entry, true, observe.FromNode(node("a", "10", nil, gated)), NodePresent, inputs)
	assert.True(t, action.LiftsGate())
	assert.Empty(t, action.LabelsWithoutRoom)
}

func TestWhichChangesOfRulesTheBrakeAsksAbout(t *testing.T) {
	listed := ruledBy("r", labels{"tier": "gold"})
	for name, c := range map[string]struct {
		ruled  plan.Plan
		alters bool
		drifts []string
	}{
		"a label that is added":                               {ruled: plan.Plan{Edits: plan.SetItems(plan.CauseRule, labels{"rack": "r1"}), RuleLabelsBefore: listed}},
		"a label that is removed":                             {ruled: plan.Plan{Edits: plan.RemoveItems(plan.CauseEndedRule, "tier"), RuleLabelsBefore: listed}, alters: true},
		"another value":                                       {ruled: plan.Plan{Edits: plan.SetItems(plan.CauseRule, labels{"tier": "iron"}), RuleLabelsBefore: listed}, alters: true},
		"another value than a client has given it":            {ruled: plan.Plan{Edits: plan.SetItems(plan.CauseRule, labels{"mine": "2"}), RuleLabelsBefore: listed}, alters: true},
		"the same value again: another client had changed it": {ruled: plan.Plan{Edits: plan.SetItems(plan.CauseRule, labels{"tier": "gold"}), RuleLabelsBefore: listed}, drifts: []string{"tier"}},
		"back to what an operator gave it":                    {ruled: plan.Plan{Edits: plan.SetItems(plan.CauseRule, labels{"tier": "iron"}), RuleLabelsBefore: listed}, alters: true},
		"a label that is held for a while from now on": {
			ruled:  plan.Plan{RuleLabels: derivedLabels{"tier": {Value: "gold", Rule: "r", End: now}}, RuleLabelsBefore: listed, WriteLabelsAnnotation: true},
			alters: true,
		},
		"a label that was held before": {
			ruled: plan.Plan{RuleLabels: derivedLabels{"tier": {Value: "gold", Rule: "r", End: now}}, RuleLabelsBefore: derivedLabels{"tier": {Value: "gold", Rule: "r", End: now}}},
		},
		"the annotation only": {ruled: plan.Plan{WriteLabelsAnnotation: true, RuleLabelsBefore: listed}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.alters, c.ruled.RemovesOrReplacesLabels(labels{"tier": "gold", "mine": "1"}))
			assert.Equal(t, c.drifts, c.ruled.Drifted())
		})
	}
}

// Rules that nobody had before list nothing on any Node.
func TestNewRulesAreHeldWhereTheyReplaceWhatOperatorsHaveSet(t *testing.T) {
	for name, c := range map[string]struct {
		rules  string
		shows  labels
		alters bool
	}{
		"a rule that wins over another value":           {rules: ruleThatWins, shows: labels{"tier": "iron"}, alters: true},
		"a rule that wins, where the value is the same": {rules: ruleThatWins, shows: labels{"tier": "gold"}},
		"a rule that wins, where nobody has set it":     {rules: ruleThatWins},
		"a rule that gives way":                         {rules: tierRule, shows: labels{"tier": "iron"}},
	} {
		t.Run(name, func(t *testing.T) {
			inputs := plan.Inputs{Policy: loadPolicy(t, c.rules).WithRulesHeld(true), GuardInForce: true, Now: now}
			assert.Equal(t, c.alters, plan.RulesRemoveOrReplaceLabels(record.Record{}, observe.FromNode(node("a", "10", c.shows)), inputs))
		})
	}
}

func TestWhatIsNotDoneNowIsListedAsBefore(t *testing.T) {
	listed := derivedLabels{"tier": {Value: "gold", Rule: "r"}, "rack": {Value: "r1", Rule: "r"}}
	all := plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRule, labels{"tier": "iron", "zone": "z1"}), plan.RemoveItems(plan.CauseEndedRule, "rack")), RuleLabelsBefore: listed, RuleLabels: derivedLabels{"tier": {Value: "iron", Rule: "r"}, "zone": {Value: "z1", Rule: "r"}}, WriteLabelsAnnotation: true}
	for name, c := range map[string]struct {
		drop []plan.DesiredItem
		want plan.Plan
	}{
		"nothing is dropped": {want: all},
		"a value that is added": {
			drop: []plan.DesiredItem{{Item: "zone", Value: "z1"}},
			want: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRule, labels{"tier": "iron"}), plan.RemoveItems(plan.CauseEndedRule, "rack")), RuleLabels: derivedLabels{"tier": {Value: "iron", Rule: "r"}}, WriteLabelsAnnotation: true},
		},
		"a value that is changed": {
			drop: []plan.DesiredItem{{Item: "tier", Value: "iron"}},
			want: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRule, labels{"zone": "z1"}), plan.RemoveItems(plan.CauseEndedRule, "rack")), RuleLabels: derivedLabels{"tier": {Value: "gold", Rule: "r"}, "zone": {Value: "z1", Rule: "r"}}, WriteLabelsAnnotation: true},
		},
		"a removal": {
			drop: []plan.DesiredItem{{Item: "rack", Removed: true}},
			want: plan.Plan{Edits: plan.SetItems(plan.CauseRule, labels{"tier": "iron", "zone": "z1"}), RuleLabels: derivedLabels{"tier": {Value: "iron", Rule: "r"}, "rack": {Value: "r1", Rule: "r"}, "zone": {Value: "z1", Rule: "r"}}, WriteLabelsAnnotation: true},
		},
		"another value of the same label is no reason": {drop: []plan.DesiredItem{{Item: "tier", Value: "silver"}}, want: all},
		"everything: the annotation stays as it is": {
			drop: []plan.DesiredItem{{Item: "tier", Value: "iron"}, {Item: "zone", Value: "z1"}, {Item: "rack", Removed: true}},
			want: plan.Plan{Edits: plan.Edits{}, RuleLabels: listed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := all.WithoutItems(func(desired plan.DesiredItem) bool { return slices.Contains(c.drop, desired) })
			c.want.RuleLabelsBefore = listed
			assert.Equal(t, c.want, got)
			assert.Equal(t, listed["tier"].Value, all.RuleLabelsBefore["tier"].Value, "the whole is not changed")
			assert.Len(t, all.RuleLabels, 2, "the whole is not changed")
		})
	}
}

func TestAValueThatARuleReturnsToAnOperatorIsRecordedAsBefore(t *testing.T) {
	entry := store.Entry{Record: *remembered("a", 9, labels{"tier": "iron"}, withDerived(ruledBy("tier", labels{"tier": "gold"})))}
	for n, object := range []*corev1.Node{
		node("a", "10", labels{"tier": "gold"}, listing(ruledBy("tier", labels{"tier": "gold"}))), node("a", "11", labels{"tier": "iron"}),
	} {
		inputs := plan.Inputs{Policy: loadPolicy(t, tierRule), GuardInForce: true, Now: now}
		next := Decide(entry, true, observe.FromNode(object), NodePresent, inputs)
		for ; next.Record != nil; next = Decide(entry, true, observe.FromNode(object), NodePresent, inputs) {
			entry.Record = *next.Record
		}
		assert.Equal(t, labels{"tier": "iron"}, entry.Record.Items())
		if n == 0 {
			body := patchOf(t, observe.FromNode(object), next.Plan)
			assert.JSONEq(t, `{"metadata":{"uid":"a","resourceVersion":"10","labels":{"tier":"iron"},"annotations":{"nodekeep.dev/labels":null}}}`, body)
		} else {
			assert.Equal(t, NoStep, next.Step)
		}
	}
}

// The label of a rule is on the Node, whose value the API server books under nodekeep alone: that says nothing of what the operator set.
func TestTheRecordKeepsWhatAnOperatorSetWhileARuleSetsAnotherValue(t *testing.T) {
	for name, key := range map[string]string{"a label that kubelets may set": "tier", "a label that no kubelet may set": worker} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", node("a", "10", labels{key: "by-hand"}))
			r := w.leads()
			require.Equal(t, labels{key: "by-hand"}, w.record().Items())

			r.follows("labels:\n  rules:\n  - {name: one, set: {" + key + ": by-rule}, precedence: rule}\n")
			require.Equal(t, labels{key: "by-rule"}, w.shows())
			w.label("other", "1") // the Node is observed once more
			require.Empty(t, r.works())
			assert.Equal(t, labels{key: "by-hand", "other": "1"}, w.record().Items())

			r.follows("")
			assert.Equal(t, labels{key: "by-hand", "other": "1"}, w.shows())
		})
	}
}

// Another admission policy may refuse what rules set, and be gone at the next registration.
func TestALabelOfRulesThatIsRefusedKeepsTheGateAndStaysInTheRecord(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		held   bool
		set    labels
	}{
		"held":                             {held: true, set: labels{"gpu": "2"}},
		"the device plugin registers late": {policy: gpuRule, set: labels{"gpu": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := loadPolicy(t, c.policy).WithRulesHeld(c.held)
			inputs := plan.Inputs{Policy: p, GuardInForce: true, Now: now, Refused: map[string]bool{"gpu": true}}
			n := observe.FromNode(node("b", "10", nil, gated, machine("m"), gpus("0", 0)))
			entry := store.Entry{Record: *remembered("a", 9, nil, withDerived(ruledBy("gpu", c.set)), onMachine)}
			for range 3 {
				action := Decide(entry, true, n, NodePresent, inputs)
				assert.False(t, action.LiftsGate())
				if action.Record == nil {
					break
				}
				entry.Record = *action.Record
			}
			assert.Equal(t, ruledBy("gpu", c.set), entry.Record.RuleLabels)
			inputs.Refused = nil
			assert.Equal(t, c.set, Decide(entry, true, n, NodePresent, inputs).RuleEdits().Values(), "the policy that refused it is deleted")
		})
	}
}
