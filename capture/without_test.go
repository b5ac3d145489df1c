//go:build oldcore

package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func TestAStepIsTakenWithoutTheItemsThatArePaused(t *testing.T) {
	gate := policy.DefaultGate
	ci, blue, verify := taints("dedicated=ci:NoSchedule"), taints("tenant=blue:NoExecute"), taints("verify:NoSchedule")
	both := append(taints("dedicated=ci:NoSchedule"), blue...)
	paused := map[setting]bool{settingOf(ci[0], false): true}
	seen := node("a", "10", labels{"dedicated": "ci"})
	stamp := func(give labels, takeBack ...string) *policy.Stamp { return stampAfter(seen, give, takeBack) }
	for name, c := range map[string]struct {
		step   Plan
		paused map[setting]bool
		want   Plan
	}{
		"nothing is paused": {
			step: Plan{Step: Complete, Put: ci, LiftGate: true},
			want: Plan{Step: Complete, Put: ci, LiftGate: true},
		},
		"the only item is": {
			step:   Plan{Step: FollowRules, Put: ci, RuleTaints: both, Foreign: verify},
			paused: paused,
			want:   Plan{Step: Nothing, Foreign: verify},
		},
		"one of two items is": {
			step:   Plan{Step: FollowRules, Put: both, RuleTaints: both},
			paused: paused,
			want:   Plan{Step: FollowRules, Put: blue, RuleTaints: blue},
		},
		"another value is": {
			step:   Plan{Step: FollowRules, Put: taints("dedicated=gpu:NoSchedule"), RuleTaints: taints("dedicated=gpu:NoSchedule")},
			paused: paused,
			want:   Plan{Step: FollowRules, Put: taints("dedicated=gpu:NoSchedule"), RuleTaints: taints("dedicated=gpu:NoSchedule")},
		},
		"a removal is: the taint stays ours": {
			step:   Plan{Step: FollowRules, Take: ci, Put: blue, RuleTaints: blue},
			paused: map[setting]bool{settingOf(ci[0], true): true},
			want:   Plan{Step: FollowRules, Put: blue, RuleTaints: both},
		},
		"the gate stays while an item is": {
			step:   Plan{Step: Complete, Give: labels{"rack": "r1"}, Put: ci, RuleTaints: ci, Register: verify, Stamp: stamp(labels{"rack": "r1"}), LiftGate: true},
			paused: paused,
			want:   Plan{Step: Complete, Give: labels{"rack": "r1"}, Register: verify, Stamp: stamp(labels{"rack": "r1"})},
		},
		"the gate stays, and what comes with its removal": {
			step:   Plan{Step: Complete, Put: both, RuleTaints: both, Register: verify, Stamp: stamp(nil), LiftGate: true},
			paused: paused,
			want:   Plan{Step: Complete, Put: blue, RuleTaints: blue},
		},
		"the gate itself is": {
			step:   Plan{Step: Lift, LiftGate: true},
			paused: map[setting]bool{liftOf(gate): true},
			want:   Plan{Step: Nothing},
		},
		"a correction is": {
			step:   Plan{Step: Complete, PutRight: labels{"tier": "gold", "rack": "r1"}, TakeBack: []string{"old", "older"}, Stamp: stamp(nil, "old", "older"), LiftGate: true},
			paused: map[setting]bool{{item: "tier", value: "gold"}: true, {item: "old", removed: true}: true},
			want:   Plan{Step: Complete, PutRight: labels{"rack": "r1"}, TakeBack: []string{"older"}, Stamp: stamp(nil, "older")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assertPlan(t, c.want, c.step.without(c.paused, seen))
		})
	}
}

func TestASettingIsWhatNodekeepWouldSetAgain(t *testing.T) {
	step := Plan{
		Step: Complete, Give: labels{"rack": "r1"}, PutRight: labels{"tier": "gold"}, TakeBack: []string{"old"},
		Take: taints("dedicated=ci:NoSchedule", "tenant=red:NoExecute"), Put: taints("dedicated=gpu:NoSchedule"), Register: taints("verify:NoSchedule"), LiftGate: true,
	}
	assert.Equal(t, []setting{
		{item: "dedicated:NoSchedule", value: "gpu"}, // which replaces the one of that key and effect
		{item: "tenant:NoExecute", value: "red", removed: true},
		{item: "tier", value: "gold"},
		{item: "old", removed: true},
		{item: "nodekeep.dev/restoring:NoSchedule", removed: true},
	}, step.settings(policy.DefaultGate))
}

func TestARecordThatIsWrittenOnlyForATaintThatWaitsIsFound(t *testing.T) {
	p := policyOfTaints(t, `{rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}]}`)
	ours := ruled("dedicated=ci:NoSchedule")
	for name, c := range map[string]struct {
		prev *store.Record
		seen *Node
		want []corev1.Taint
	}{
		"a client removed the taint":             {remembered("a", "10", labels{"dedicated": "ci"}, ours), node("a", "11", labels{"dedicated": "ci"}), taints("dedicated=ci:NoSchedule")},
		"and a label changed":                    {remembered("a", "10", labels{"dedicated": "ci"}, ours), node("a", "11", labels{"dedicated": "ci", "rack": "r1"}), nil},
		"behind the gate, more may be to do":     {remembered("a", "10", labels{"dedicated": "ci"}, ours), node("a", "11", labels{"dedicated": "ci"}, gated), nil},
		"a taint of ours has to go as well":      {remembered("a", "10", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule", "old:NoExecute")), node("a", "11", labels{"dedicated": "ci"}, tainted("old:NoExecute")), nil},
		"the record is of that state already":    {remembered("a", "11", labels{"dedicated": "ci"}, ours), node("a", "11", labels{"dedicated": "ci"}), nil},
		"the taint was not there yet":            {remembered("a", "10", labels{"dedicated": "ci"}), node("a", "11", labels{"dedicated": "ci"}), nil},
		"the Node is as the rules would have it": {remembered("a", "10", labels{"dedicated": "ci"}, ours), node("a", "11", labels{"dedicated": "ci"}, tainted("dedicated=ci:NoSchedule")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, awaited(c.prev, c.seen, plan(c.prev, c.seen, Present, p, now), p))
		})
	}
}

func TestOnlyChangesOfLiveNodesWithoutAGateAreRecordedTogether(t *testing.T) {
	p := policyOfTaints(t, `{rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}]}`)
	for name, c := range map[string]struct {
		prev  *store.Record
		seen  *Node
		event Event
		want  bool
	}{
		"a label changed":                         {remembered("a", "10", labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}), Present, true},
		"a first record":                          {nil, node("a", "11", labels{"rack": "r2"}), Present, false},
		"a new object is adopted":                 {remembered("a", "10", labels{"rack": "r1"}), node("b", "11", labels{"rack": "r1"}), Present, false},
		"a gated Node":                            {remembered("a", "10", labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}, gated), Present, false},
		"a Node that waits for its finalizers":    {remembered("a", "10", labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}, deleting), Present, false},
		"a deletion":                              {remembered("a", "10", labels{"rack": "r1"}), node("a", "11", labels{"rack": "r2"}), Deleted, false},
		"a Node of which a deletion was noted":    {remembered("a", "10", labels{"rack": "r1"}, goneAt(now)), node("a", "11", labels{"rack": "r2"}), Present, false},
		"a record at a deletion that failed":      {remembered("a", "10", labels{"rack": "r1"}, early), node("a", "11", labels{"rack": "r2"}), Present, false},
		"only the version, before a rule's taint": {remembered("a", "10", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")), node("a", "11", labels{"dedicated": "ci"}), Present, false},
		"nothing": {remembered("a", "10", labels{"rack": "r1"}), node("a", "11", labels{"rack": "r1"}), Present, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, coalesces(c.prev, c.seen, plan(c.prev, c.seen, c.event, p, now), p))
		})
	}
}

func TestAnEventNamesTheOtherFieldManagersOfTheItem(t *testing.T) {
	seen := node("a", "10", labels{"tier": "gold"}, func(n *Node) {
		n.Owners = map[string][]string{"tier": {"controller", "kubectl-label"}}
		n.Writers = []writer{{Manager: "kubectl-taint", Taints: true, At: 1}, {Manager: fieldManager, Taints: true, At: 3}, {Manager: "tainter", Taints: true, At: 2}, {Manager: "labels", Labels: []string{"tier"}, At: 4}}
	})
	assert.Equal(t, []string{"controller", "kubectl-label"}, rivals(seen, setting{item: "tier"}))
	assert.Empty(t, rivals(seen, setting{item: "rack"}))
	assert.Equal(t, []string{"tainter"}, rivals(seen, setting{item: "dedicated:NoSchedule"}))
	assert.Empty(t, rivals(node("a", "10", nil), setting{item: "dedicated:NoSchedule"}))
}
