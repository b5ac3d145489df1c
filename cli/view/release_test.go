package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

func TestBeforeANodeIsReleasedItIsSaidWhetherWorkloadsMayLandOnItAndWhatItLacks(t *testing.T) {
	gate := gatedFor(time.Hour)
	unverified := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule})
	}
	lacking := statetest.Recorded(set{"a": "1"}, statetest.OfAnother)
	attempted := &Verification{Name: "n1", Taints: []string{verify.Taint + ":NoSchedule"}, Attempts: 2, Last: &verify.Last{}}
	never := &Verification{Name: "n1", Taints: []string{verify.Taint + ":NoSchedule"}}
	for name, c := range map[string]struct {
		state        nodestate.State
		verification *Verification
		lifts, opens bool
		want, done   string
	}{
		"behind the gate, and it lacks an item": {statetest.State(statetest.Live(nil, gate), lacking), nil, true, false, "Workloads may then land on it although it lacks 1 item.", "gate lifted"},
		"behind the gate, and it lacks nothing": {statetest.State(statetest.Live(nil, gate), statetest.Recorded(nil)), nil, true, false, "It lacks nothing that is known of.", "gate lifted"},
		"not verified":                          {statetest.State(statetest.Live(nil, unverified), nil), attempted, false, true, "2 attempts did not pass. Workloads may then land on it although it is not verified.", "released without verification"},
		"not tried yet":                         {statetest.State(statetest.Live(nil, unverified), nil), never, false, true, "No attempt has ended yet. Workloads may then land on it although it is not verified.", "released without verification"},
		"both":                                  {statetest.State(statetest.Live(nil, gate, unverified), lacking), attempted, true, true, "2 attempts did not pass. Workloads may then land on it although it lacks 1 item and is not verified.", "gate lifted, released without verification"},
		"both, and only the gate is lifted":     {statetest.State(statetest.Live(nil, gate, unverified), lacking), attempted, true, false, "It lacks 1 item. It takes no workloads before it is verified.", "gate lifted"},
		"both, and the gate stays":              {statetest.State(statetest.Live(nil, gate, unverified), lacking), attempted, false, true, "2 attempts did not pass. It takes no workloads before its gate is lifted.", "released without verification"},
	} {
		t.Run(name, func(t *testing.T) {
			release := Release{State: c.state, Verification: c.verification, Opens: c.opens, GateStays: !c.lifts && policy.DefaultGate.Present(c.state.Node.Spec.Taints)}
			if gated, ok := GatedOf(c.state, statetest.Under(policy.Default()), CaptureStatus{}); ok && c.lifts {
				release.Gated = &gated
			}
			assert.Equal(t, c.want, release.Summary())
			assert.Equal(t, "node/n1: "+c.done, release.Done())
		})
	}
}

func TestAnAnswerCountsForTheStateThatWasShown(t *testing.T) {
	gate := gatedFor(time.Hour)
	shown := func(state nodestate.State, taints ...string) [4]string {
		gated, _ := GatedOf(state, statetest.Under(policy.Default()), CaptureStatus{})
		return Release{State: state, Gated: &gated, Opens: true, Verification: &Verification{Taints: taints}}.Fingerprint()
	}
	first := shown(statetest.State(statetest.Live(nil, gate), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)))
	assert.NotEqual(t, first, shown(statetest.State(statetest.Live(nil, gate), statetest.Recorded(set{"a": "1", "b": "2"}, statetest.OfAnother))), "it lacks more")
	assert.NotEqual(t, first, shown(statetest.State(statetest.Live(nil, gatedFor(time.Minute)), statetest.Recorded(set{"a": "1"}, statetest.OfAnother))), "another Node of the name")
	assert.NotEqual(t, first, shown(statetest.State(statetest.Live(nil, gate), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), "a:NoSchedule"), "it has another taint of verification")
}
