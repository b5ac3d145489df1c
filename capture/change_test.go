package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestAChangeIsMadeWithoutTheItemsThatArePaused(t *testing.T) {
	ci, blue, verify := taints("dedicated=ci:NoSchedule"), taints("tenant=blue:NoExecute"), taints("verify:NoSchedule")
	both := taints("dedicated=ci:NoSchedule", "tenant=blue:NoExecute")
	paused := map[setting]bool{settingOf(ci[0], false): true}
	for name, c := range map[string]struct {
		change Change
		paused map[setting]bool
		want   Change
		step   Step
	}{
		"nothing is paused": {
			change: Change{AddTaints: ci, LiftGate: true}, want: Change{AddTaints: ci, LiftGate: true}, step: Complete,
		},
		"the only item is": {
			change: Change{AddTaints: ci, Derived: both}, paused: paused, want: Change{Derived: blue}, step: Nothing,
		},
		"one of two items is": {
			change: Change{AddTaints: both, Derived: both}, paused: paused, want: Change{AddTaints: blue, Derived: blue}, step: FollowRules,
		},
		"another value is": {
			change: Change{AddTaints: taints("dedicated=gpu:NoSchedule"), Derived: taints("dedicated=gpu:NoSchedule")}, paused: paused,
			want: Change{AddTaints: taints("dedicated=gpu:NoSchedule"), Derived: taints("dedicated=gpu:NoSchedule")}, step: FollowRules,
		},
		"a removal is: the taint stays on the list": {
			change: Change{RemoveTaints: ci, AddTaints: blue, Derived: blue}, paused: map[setting]bool{settingOf(ci[0], true): true},
			want: Change{AddTaints: blue, Derived: both}, step: FollowRules,
		},
		"the gate stays while an item is": {
			change: Change{Add: labels{"rack": "r1"}, AddTaints: ci, Derived: ci, RegisterTaints: verify, LiftGate: true}, paused: paused,
			want: Change{Add: labels{"rack": "r1"}, RegisterTaints: verify}, step: Complete,
		},
		"the gate stays, and what is added with its removal": {
			change: Change{AddTaints: both, Derived: both, RegisterTaints: verify, LiftGate: true}, paused: paused,
			want: Change{AddTaints: blue, Derived: blue}, step: FollowRules,
		},
		"the gate itself is": {
			change: Change{LiftGate: true}, paused: map[setting]bool{settingOf(gate.Taint(), true): true}, step: Nothing,
		},
		"the list of derived taints is": {
			change: Change{WriteTaintList: true}, paused: map[setting]bool{{item: policy.TaintsAnnotation}: true}, step: Nothing,
		},
		"a restored label is": {
			change: Change{Add: labels{"rack": "r1", "tier": "gold"}, RegisterTaints: verify, LiftGate: true}, paused: map[setting]bool{{item: "rack", value: "r1"}: true},
			want: Change{Add: labels{"tier": "gold"}, RegisterTaints: verify}, step: Complete,
		},
		"the only restored label is": {
			change: Change{Add: labels{"rack": "r1"}, RegisterTaints: verify, LiftGate: true}, paused: map[setting]bool{{item: "rack", value: "r1"}: true}, step: Nothing,
		},
		"a correction is": {
			change: Change{Correct: labels{"tier": "gold", "rack": "r1"}, Remove: []string{"old", "older"}, LiftGate: true},
			paused: map[setting]bool{{item: "tier", value: "gold"}: true, {item: "old", removed: true}: true},
			want:   Change{Correct: labels{"rack": "r1"}, Remove: []string{"older"}}, step: Complete,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := c.change.without(func(set setting) bool { return c.paused[set] }, gate)
			assert.Equal(t, c.step, got.step())
			assert.Equal(t, outcomeOf(Action{Change: c.want}), outcomeOf(Action{Change: got}))
			assert.Equal(t, policy.Shown(c.want.Derived), policy.Shown(got.Derived))
		})
	}
}

func TestASettingIsWhatNodekeepWouldSetAgain(t *testing.T) {
	change := Change{
		Add: labels{"rack": "r1"}, Correct: labels{"tier": "gold"}, Remove: []string{"old"}, WriteTaintList: true, Derived: taints("dedicated=gpu:NoSchedule"),
		RemoveTaints: taints("dedicated=ci:NoSchedule", "tenant=red:NoExecute"), AddTaints: taints("dedicated=gpu:NoSchedule"), RegisterTaints: taints("verify:NoSchedule"), LiftGate: true,
	}
	assert.Equal(t, []setting{
		{item: "dedicated:NoSchedule", value: "gpu"}, // which replaces the one of that key and effect
		{item: "tenant:NoExecute", value: "red", removed: true},
		{item: "rack", value: "r1"},
		{item: "tier", value: "gold"},
		{item: "old", removed: true},
		{item: "nodekeep.dev/restoring:NoSchedule", removed: true},
		{item: "nodekeep.dev/taints", value: "dedicated=gpu:NoSchedule"},
	}, change.settings(gate))
}

func TestTheFirstKeyOfAChangeIsMadeAlone(t *testing.T) {
	change := Change{Add: labels{"b": "1", "c": "1"}, Correct: labels{"d": "1"}, Remove: []string{"a"}, RegisterTaints: taints("verify:NoSchedule"), LiftGate: true, AddTaints: taints("x:NoSchedule")}
	var keys [][]string
	for len(change.keys()) > 0 {
		first := change.first(gate)
		keys = append(keys, first.keys())
		assert.False(t, first.LiftGate || first.lists(), "the gate stays, and no rule is followed")
		assert.Equal(t, len(first.Add) > 0, len(first.RegisterTaints) > 0, "registration taints are added with the first label")
		change, _ = change.without(func(set setting) bool { return set.item == first.keys()[0] }, gate)
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
			a := &attempt{Controller: &Controller{Options: Options{Policy: policy.Default}}, node: observe.Of(c.node), event: c.event, found: c.record != nil}
			if c.record != nil {
				a.entry.Record = *c.record
			}
			next := Decide(a.entry, a.found, a.node, a.event, Circumstances{Policy: policy.Default(), Guarded: true, Now: now})
			assert.Equal(t, c.want, a.coalesces(next))
		})
	}
}

func TestAnEventNamesTheOtherFieldManagersOfTheItem(t *testing.T) {
	n := &observe.Node{
		Owners: map[string][]string{"tier": {"controller", "kubectl-label"}},
		Writers: []observe.Writer{
			{Manager: "kubectl-taint", Taints: true, At: 1}, {Manager: observe.FieldManager, Taints: true, At: 3}, {Manager: "tainter", Taints: true, At: 2},
			{Manager: "labels", Labels: []string{"tier"}, At: 4},
		},
	}
	assert.Equal(t, []string{"controller", "kubectl-label"}, rivals(n, setting{item: "tier"}))
	assert.Empty(t, rivals(n, setting{item: "rack"}))
	assert.Equal(t, []string{"tainter"}, rivals(n, setting{item: "dedicated:NoSchedule"}))
	assert.Empty(t, rivals(&observe.Node{}, setting{item: "dedicated:NoSchedule"}))
	assert.Equal(t, "label tier", setting{item: "tier"}.String())
	assert.Equal(t, "annotation nodekeep.dev/taints", setting{item: policy.TaintsAnnotation}.String())
}
