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
	paused := map[plan.DesiredItem]bool{plan.TaintEdits(plan.CauseDerivedTaint, false, ci...)[0].DesiredItem: true}
	for name, c := range map[string]struct {
		change plan.Plan
		paused map[plan.DesiredItem]bool
		want   plan.Plan
		step   Step
	}{
		"nothing is paused": {
			change: plan.Plan{Edits: slices.Concat(plan.TaintEdits(plan.CauseDerivedTaint, false, ci...), plan.LiftGate(gate))}, want: plan.Plan{Edits: slices.Concat(plan.TaintEdits(plan.CauseDerivedTaint, false, ci...), plan.LiftGate(gate))}, step: StepRestore,
		},
		"the only item is": {
			change: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, ci...), DerivedTaints: combined}, paused: paused, want: plan.Plan{DerivedTaints: blue}, step: NoStep,
		},
		"one of two items is": {
			change: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, combined...), DerivedTaints: combined}, paused: paused, want: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, blue...), DerivedTaints: blue}, step: StepApplyRules,
		},
		"another value is": {
			change: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, taints("dedicated=gpu:NoSchedule")...), DerivedTaints: taints("dedicated=gpu:NoSchedule")}, paused: paused,
			want: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, taints("dedicated=gpu:NoSchedule")...), DerivedTaints: taints("dedicated=gpu:NoSchedule")}, step: StepApplyRules,
		},
		"a removal is: the taint stays on the list": {
			change: plan.Plan{Edits: slices.Concat(plan.TaintEdits(plan.CauseDerivedTaint, true, ci...), plan.TaintEdits(plan.CauseDerivedTaint, false, blue...)), DerivedTaints: blue}, paused: map[plan.DesiredItem]bool{plan.TaintEdits(plan.CauseDerivedTaint, true, ci...)[0].DesiredItem: true},
			want: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, blue...), DerivedTaints: combined}, step: StepApplyRules,
		},
		"the gate stays while an item is": {
			change: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"rack": "r1"}), plan.TaintEdits(plan.CauseDerivedTaint, false, ci...), plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...), plan.LiftGate(gate)), DerivedTaints: ci}, paused: paused,
			want: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"rack": "r1"}), plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...))}, step: StepRestore,
		},
		"the gate stays, and what is added with its removal": {
			change: plan.Plan{Edits: slices.Concat(plan.TaintEdits(plan.CauseDerivedTaint, false, combined...), plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...), plan.LiftGate(gate)), DerivedTaints: combined}, paused: paused,
			want: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, blue...), DerivedTaints: blue}, step: StepApplyRules,
		},
		"the gate itself is": {
			change: plan.Plan{Edits: plan.LiftGate(gate)}, paused: map[plan.DesiredItem]bool{plan.LiftGate(gate)[0].DesiredItem: true}, step: NoStep,
		},
		"the list of derived taints is": {
			change: plan.Plan{TaintsAnnotationStale: true}, paused: map[plan.DesiredItem]bool{{Item: policy.TaintsAnnotation}: true}, step: NoStep,
		},
		"a restored label is": {
			change: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"rack": "r1", "tier": "gold"}), plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...), plan.LiftGate(gate))}, paused: map[plan.DesiredItem]bool{{Item: "rack", Value: "r1"}: true},
			want: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"tier": "gold"}), plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...))}, step: StepRestore,
		},
		"the only restored label is": {
			change: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"rack": "r1"}), plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...), plan.LiftGate(gate))}, paused: map[plan.DesiredItem]bool{{Item: "rack", Value: "r1"}: true}, step: NoStep,
		},
		"a label is that comes with a reboot": {
			change: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"rack": "r1"}), plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...), plan.LiftGate(gate)), Boot: "2"}, paused: map[plan.DesiredItem]bool{{Item: "rack", Value: "r1"}: true},
			want: plan.Plan{Edits: plan.TaintEdits(plan.CauseRegistrationTaint, false, verify...), Boot: "2"}, step: StepRestore,
		},
		"a correction is": {
			change: plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseCorrection, labels{"tier": "gold", "rack": "r1"}), plan.RemoveItems(plan.CauseCorrection, "old", "older"), plan.LiftGate(gate))},
			paused: map[plan.DesiredItem]bool{{Item: "tier", Value: "gold"}: true, {Item: "old", Removed: true}: true},
			want:   plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseCorrection, labels{"rack": "r1"}), plan.RemoveItems(plan.CauseCorrection, "older"))}, step: StepRestore,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := c.change.WithoutItems(func(desired plan.DesiredItem) bool { return c.paused[desired] })
			assert.Equal(t, c.step, planStep(got))
			assert.Equal(t, outcomeOf(Action{Plan: c.want}), outcomeOf(Action{Plan: got}))
			assert.Equal(t, policy.Shown(c.want.DerivedTaints), policy.Shown(got.DerivedTaints))
		})
	}
}

func TestASettingIsWhatNodekeepWouldSetAgain(t *testing.T) {
	change := plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"rack": "r1"}), plan.SetItems(plan.CauseCorrection, labels{"tier": "gold"}), plan.RemoveItems(plan.CauseCorrection, "old"), plan.TaintEdits(plan.CauseDerivedTaint, true, taints("dedicated=ci:NoSchedule", "tenant=red:NoExecute")...), plan.TaintEdits(plan.CauseDerivedTaint, false, taints("dedicated=gpu:NoSchedule")...), plan.TaintEdits(plan.CauseRegistrationTaint, false, taints("verify:NoSchedule")...), plan.LiftGate(gate)), TaintsAnnotationStale: true, DerivedTaints: taints("dedicated=gpu:NoSchedule")}
	assert.ElementsMatch(t, []plan.DesiredItem{
		{Item: "dedicated:NoSchedule", Value: "gpu"}, // which replaces the one of that key and effect
		{Item: "tenant:NoExecute", Value: "red", Removed: true},
		{Item: "rack", Value: "r1"},
		{Item: "tier", Value: "gold"},
		{Item: "old", Removed: true},
		{Item: "nodekeep.dev/restoring:NoSchedule", Removed: true},
		{Item: "nodekeep.dev/taints", Value: "dedicated=gpu:NoSchedule"},
	}, change.EnforcedItems())
}

func TestTheFirstKeyOfAChangeIsMadeAlone(t *testing.T) {
	change := plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"b": "1", "c": "1"}), plan.SetItems(plan.CauseCorrection, labels{"d": "1"}), plan.RemoveItems(plan.CauseCorrection, "a"), plan.TaintEdits(plan.CauseRegistrationTaint, false, taints("verify:NoSchedule")...), plan.LiftGate(gate), plan.TaintEdits(plan.CauseDerivedTaint, false, taints("x:NoSchedule")...))}
	var keys [][]string
	for len(change.EditedItems()) > 0 {
		first := change.OnlyFirstItem()
		keys = append(keys, first.EditedItems())
		assert.False(t, first.LiftsGate() || first.WritesTaintsAnnotation(), "the gate stays, and no rule is followed")
		assert.Equal(t, first.HasCause(plan.CauseRecord), first.HasCause(plan.CauseRegistrationTaint), "registration taints are added with the first label")
		change, _ = change.WithoutItems(func(desired plan.DesiredItem) bool { return desired.Item == first.EditedItems()[0] })
	}
	assert.Equal(t, [][]string{{"a"}, {"b"}, {"c"}, {"d"}}, keys)
}

func TestOnlyChangesOfLiveNodesWithoutAGateAreRecordedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		record *record.Record
		node   *corev1.Node
		event  Presence
		want   bool
	}{
		"a label changed":                      {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}), NodePresent, true},
		"a first record":                       {nil, node("a", "11", labels{"rack": "r2"}), NodePresent, false},
		"a new object is adopted":              {remembered("a", 10, labels{"rack": "r1"}), node("b", "11", nil, stamped(record.Stamp{Brought: labels{"rack": "r1"}})), NodePresent, false},
		"a gated Node":                         {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}, gated), NodePresent, false},
		"a Node that waits for its finalizers": {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}, deleting), NodePresent, false},
		"a deletion":                           {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}), NodeDeleted, false},
		"a Node whose deletion was recorded":   {remembered("a", 10, labels{"rack": "r1"}, goneSince(now)), node("a", "11", labels{"rack": "r2"}), NodePresent, false},
		"nothing":                              {remembered("a", 10, labels{"rack": "r1"}), node("a", "11", labels{"rack": "r1"}), NodePresent, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &nodeWork{Controller: &Controller{Options: Options{Policy: policy.Default}}, node: observe.FromNode(c.node), presence: c.event, hasRecord: c.record != nil}
			if c.record != nil {
				w.entry.Record = *c.record
			}
			next := Decide(w.entry, w.hasRecord, w.node, w.presence, plan.Inputs{Policy: policy.Default(), GuardInForce: true, Now: now})
			assert.Equal(t, c.want, w.coalesces(next))
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
	assert.Equal(t, "label tier", describe(plan.DesiredItem{Item: "tier"}))
	assert.Equal(t, "annotation nodekeep.dev/taints", describe(plan.DesiredItem{Item: policy.TaintsAnnotation}))
}

func TestAnEditIsMadeWhateverItsCause(t *testing.T) {
	for cause := plan.CauseRecord; cause <= plan.CauseGate+1; cause++ { // also one that is new
		assert.NotEqual(t, NoStep, planStep(plan.Plan{Edits: plan.SetItems(cause, map[string]string{"a": "b"})}), cause)
	}
}
