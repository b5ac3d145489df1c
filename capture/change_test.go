package capture

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestAChangeIsMadeWithoutTheItemsThatArePaused(t *testing.T) {
	ci, blue, verify := taints("dedicated=ci:NoSchedule"), taints("tenant=blue:NoExecute"), taints("verify:NoSchedule")
	combined := taints("dedicated=ci:NoSchedule", "tenant=blue:NoExecute")
	paused := map[plan.Setting]bool{plan.SetTaints(plan.Derivation, false, ci...)[0].Setting: true}
	for name, c := range map[string]struct {
		change plan.Plan
		paused map[plan.Setting]bool
		want   plan.Plan
		step   Step
	}{
		"nothing is paused": {
			change: plan.Plan{Edits: slices.Concat(plan.SetTaints(plan.Derivation, false, ci...), plan.Lift(gate))}, want: plan.Plan{Edits: slices.Concat(plan.SetTaints(plan.Derivation, false, ci...), plan.Lift(gate))}, step: Complete,
		},
		"the only item is": {
			change: plan.Plan{Edits: plan.SetTaints(plan.Derivation, false, ci...), Derived: combined}, paused: paused, want: plan.Plan{Derived: blue}, step: NoStep,
		},
		"one of two items is": {
			change: plan.Plan{Edits: plan.SetTaints(plan.Derivation, false, combined...), Derived: combined}, paused: paused, want: plan.Plan{Edits: plan.SetTaints(plan.Derivation, false, blue...), Derived: blue}, step: ApplyRules,
		},
		"another value is": {
			change: plan.Plan{Edits: plan.SetTaints(plan.Derivation, false, taints("dedicated=gpu:NoSchedule")...), Derived: taints("dedicated=gpu:NoSchedule")}, paused: paused,
			want: plan.Plan{Edits: plan.SetTaints(plan.Derivation, false, taints("dedicated=gpu:NoSchedule")...), Derived: taints("dedicated=gpu:NoSchedule")}, step: ApplyRules,
		},
		"a removal is: the taint stays on the list": {
			change: plan.Plan{Edits: slices.Concat(plan.SetTaints(plan.Derivation, true, ci...), plan.SetTaints(plan.Derivation, false, blue...)), Derived: blue}, paused: map[plan.Setting]bool{plan.SetTaints(plan.Derivation, true, ci...)[0].Setting: true},
			want: plan.Plan{Edits: plan.SetTaints(plan.Derivation, false, blue...), Derived: combined}, step: ApplyRules,
		},
		"the gate stays while an item is": {
			change: plan.Plan{Edits: slices.Concat(plan.Set(plan.Record, labels{"rack": "r1"}), plan.SetTaints(plan.Derivation, false, ci...), plan.SetTaints(plan.Registration, false, verify...), plan.Lift(gate)), Derived: ci}, paused: paused,
			want: plan.Plan{Edits: slices.Concat(plan.Set(plan.Record, labels{"rack": "r1"}), plan.SetTaints(plan.Registration, false, verify...))}, step: Complete,
		},
		"the gate stays, and what is added with its removal": {
			change: plan.Plan{Edits: slices.Concat(plan.SetTaints(plan.Derivation, false, combined...), plan.SetTaints(plan.Registration, false, verify...), plan.Lift(gate)), Derived: combined}, paused: paused,
			want: plan.Plan{Edits: plan.SetTaints(plan.Derivation, false, blue...), Derived: blue}, step: ApplyRules,
		},
		"the gate itself is": {
			change: plan.Plan{Edits: plan.Lift(gate)}, paused: map[plan.Setting]bool{plan.Lift(gate)[0].Setting: true}, step: NoStep,
		},
		"the list of derived taints is": {
			change: plan.Plan{WriteTaintList: true}, paused: map[plan.Setting]bool{{Item: policy.TaintsAnnotation}: true}, step: NoStep,
		},
		"a restored label is": {
			change: plan.Plan{Edits: slices.Concat(plan.Set(plan.Record, labels{"rack": "r1", "tier": "gold"}), plan.SetTaints(plan.Registration, false, verify...), plan.Lift(gate))}, paused: map[plan.Setting]bool{{Item: "rack", Value: "r1"}: true},
			want: plan.Plan{Edits: slices.Concat(plan.Set(plan.Record, labels{"tier": "gold"}), plan.SetTaints(plan.Registration, false, verify...))}, step: Complete,
		},
		"the only restored label is": {
			change: plan.Plan{Edits: slices.Concat(plan.Set(plan.Record, labels{"rack": "r1"}), plan.SetTaints(plan.Registration, false, verify...), plan.Lift(gate))}, paused: map[plan.Setting]bool{{Item: "rack", Value: "r1"}: true}, step: NoStep,
		},
		"a correction is": {
			change: plan.Plan{Edits: slices.Concat(plan.Set(plan.Correction, labels{"tier": "gold", "rack": "r1"}), plan.Remove(plan.Correction, "old", "older"), plan.Lift(gate))},
			paused: map[plan.Setting]bool{{Item: "tier", Value: "gold"}: true, {Item: "old", Removed: true}: true},
			want:   plan.Plan{Edits: slices.Concat(plan.Set(plan.Correction, labels{"rack": "r1"}), plan.Remove(plan.Correction, "older"))}, step: Complete,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := c.change.WithoutSettings(func(set plan.Setting) bool { return c.paused[set] })
			assert.Equal(t, c.step, stepFor(got))
			assert.Equal(t, outcomeOf(Action{Plan: c.want}), outcomeOf(Action{Plan: got}))
			assert.Equal(t, policy.Shown(c.want.Derived), policy.Shown(got.Derived))
		})
	}
}

func TestASettingIsWhatNodekeepWouldSetAgain(t *testing.T) {
	change := plan.Plan{Edits: slices.Concat(plan.Set(plan.Record, labels{"rack": "r1"}), plan.Set(plan.Correction, labels{"tier": "gold"}), plan.Remove(plan.Correction, "old"), plan.SetTaints(plan.Derivation, true, taints("dedicated=ci:NoSchedule", "tenant=red:NoExecute")...), plan.SetTaints(plan.Derivation, false, taints("dedicated=gpu:NoSchedule")...), plan.SetTaints(plan.Registration, false, taints("verify:NoSchedule")...), plan.Lift(gate)), WriteTaintList: true, Derived: taints("dedicated=gpu:NoSchedule")}
	assert.ElementsMatch(t, []plan.Setting{
		{Item: "dedicated:NoSchedule", Value: "gpu"}, // which replaces the one of that key and effect
		{Item: "tenant:NoExecute", Value: "red", Removed: true},
		{Item: "rack", Value: "r1"},
		{Item: "tier", Value: "gold"},
		{Item: "old", Removed: true},
		{Item: "nodekeep.dev/restoring:NoSchedule", Removed: true},
		{Item: "nodekeep.dev/taints", Value: "dedicated=gpu:NoSchedule"},
	}, change.Settings())
}

func TestTheFirstKeyOfAChangeIsMadeAlone(t *testing.T) {
	change := plan.Plan{Edits: slices.Concat(plan.Set(plan.Record, labels{"b": "1", "c": "1"}), plan.Set(plan.Correction, labels{"d": "1"}), plan.Remove(plan.Correction, "a"), plan.SetTaints(plan.Registration, false, taints("verify:NoSchedule")...), plan.Lift(gate), plan.SetTaints(plan.Derivation, false, taints("x:NoSchedule")...))}
	var keys [][]string
	for len(change.Keys()) > 0 {
		first := change.OnlyFirstKey()
		keys = append(keys, first.Keys())
		assert.False(t, first.LiftsGate() || first.ListsTaints(), "the gate stays, and no rule is followed")
		assert.Equal(t, first.HasCause(plan.Record), first.HasCause(plan.Registration), "registration taints are added with the first label")
		change, _ = change.WithoutSettings(func(set plan.Setting) bool { return set.Item == first.Keys()[0] })
	}
	assert.Equal(t, [][]string{{"a"}, {"b"}, {"c"}, {"d"}}, keys)
}

func TestOnlyChangesOfLiveNodesWithoutAGateAreRecordedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		record *record.Record
		node   *corev1.Node
		event  Event
		want   bool
	}{
		"a label changed":                      {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}), Present, true},
		"a first record":                       {nil, node("a", "11", labels{"rack": "r2"}), Present, false},
		"a new object is adopted":              {remembered("a", 10, labels{"rack": "r1"}), node("b", "11", nil, stamped(record.Stamp{Brought: labels{"rack": "r1"}})), Present, false},
		"a gated Node":                         {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}, gated), Present, false},
		"a Node that waits for its finalizers": {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}, deleting), Present, false},
		"a deletion":                           {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}), Deleted, false},
		"a Node whose deletion was recorded":   {remembered("a", 10, labels{"rack": "r1"}, goneSince(now)), node("a", "11", labels{"rack": "r2"}), Present, false},
		"nothing":                              {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r1"}), Present, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := &attempt{Controller: &Controller{Options: Options{Policy: policy.Default}}, node: observe.FromNode(c.node), event: c.event, hasRecord: c.record != nil}
			if c.record != nil {
				a.entry.Record = *c.record
			}
			next := Decide(a.entry, a.hasRecord, a.node, a.event, plan.Circumstances{Policy: policy.Default(), Guarded: true, Now: now})
			assert.Equal(t, c.want, a.coalesces(next))
		})
	}
}

func TestAnEventNamesTheOtherFieldManagersOfTheItem(t *testing.T) {
	n := &observe.Node{
		Owners: map[string][]string{"tier": {"controller", "kubectl-label"}},
		Writers: []observe.Writer{
			{Manager: "kubectl-taint", Taints: true, Time: 1}, {Manager: observe.FieldManager, Taints: true, Time: 3}, {Manager: "tainter", Taints: true, Time: 2},
			{Manager: "labels", Labels: []string{"tier"}, Time: 4},
		},
	}
	assert.Equal(t, []string{"controller", "kubectl-label"}, n.Rivals("tier"))
	assert.Empty(t, n.Rivals("rack"))
	assert.Equal(t, []string{"tainter"}, n.Rivals("dedicated:NoSchedule"))
	assert.Empty(t, (&observe.Node{}).Rivals("dedicated:NoSchedule"))
	assert.Equal(t, "label tier", describe(plan.Setting{Item: "tier"}))
	assert.Equal(t, "annotation nodekeep.dev/taints", describe(plan.Setting{Item: policy.TaintsAnnotation}))
}

func TestAnEditIsMadeWhateverItsCause(t *testing.T) {
	for cause := plan.Record; cause <= plan.Gate+1; cause++ { // also one that is new
		assert.NotEqual(t, NoStep, stepFor(plan.Plan{Edits: plan.Set(cause, map[string]string{"a": "b"})}), cause)
	}
}
