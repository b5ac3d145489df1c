package view

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
)

func gatedFor(long time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.CreationTimestamp = metav1.NewTime(now.Add(-long))
		n.Spec.Taints = append(n.Spec.Taints, policy.DefaultGate.Taint())
	}
}

func deleting(n *corev1.Node) {
	at := metav1.NewTime(now)
	n.DeletionTimestamp, n.Finalizers = &at, []string{"example.com/hold"}
}

func TestWhyANodeWaits(t *testing.T) {
	old, young := gatedFor(time.Hour), gatedFor(time.Second)
	accepted := state(live(nil, young), recorded(nil, quarantining(set{"a": "1"})))
	accepted.Entry.Accepted = store.OldMachine
	refused := Captures{Refused: map[types.UID]string{"1": "Label a is refused"}}
	tests := map[string]struct {
		state    NodeState
		captures Captures
		why      string
		next     string
		missing  set
	}{
		"the record cannot be read":              {NodeState{Name: "n1", Node: live(nil, old), Unreadable: errors.New("?")}, Captures{}, "its record cannot be read", "nodekeep forget n1", nil},
		"an operator has to decide":              {state(live(nil, old), recorded(nil, quarantining(set{"a": "1"}))), Captures{}, "another machine has its name", "nodekeep accept n1", set{"a": "1"}},
		"an operator has decided a moment ago":   {accepted, Captures{}, "quarantined", "nothing: capture works on it", set{"a": "1"}},
		"nobody leads":                           {state(live(nil, old), recorded(set{"a": "1"}, ofAnother)), Captures{Silent: time.Hour}, "no capture has led for 60m", "nodekeep doctor", set{"a": "1"}},
		"nobody has ever led":                    {state(live(nil, old), nil), Captures{Never: true}, "no capture has ever led", "nodekeep gate lift n1", nil},
		"the API server refuses a label":         {state(live(nil, old), recorded(set{"a": "1"}, ofAnother)), refused, "1 item missing, and the API server refuses: Label a is refused", "nodekeep gate lift n1", set{"a": "1"}},
		"a refusal that is over":                 {state(live(set{"a": "1"}, young), recorded(set{"a": "1"}, ofAnother)), refused, "change not recorded yet", "nothing: capture works on it", nil},
		"capture works on it":                    {state(live(nil, young), recorded(set{"a": "1", "b": ""}, ofAnother)), Captures{}, "2 items missing", "nothing: capture works on it", set{"a": "1", "b": ""}},
		"capture should have been done":          {state(live(nil, old), recorded(set{"a": "1"}, ofAnother)), Captures{}, "1 item missing", "look at the log", set{"a": "1"}},
		"nothing but the gate is left":           {state(live(nil, young), recorded(nil)), Captures{}, "gate to be lifted", "nothing: capture works on it", nil},
		"it is being deleted":                    {state(live(nil, old, deleting), recorded(nil)), Captures{}, "it is being deleted", "example.com/hold", nil},
		"what was removed from this very object": {state(live(nil, old), recorded(set{"a": "1"})), Captures{}, "change not recorded yet", "look at the log", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, is := GatedOf(tt.state, under(policy.Default()), tt.captures)
			assert.True(t, is)
			assert.Equal(t, tt.why, g.Why)
			assert.Contains(t, g.Next, tt.next)
			if len(tt.missing) == 0 {
				assert.Empty(t, g.Missing)
			} else {
				assert.Equal(t, tt.missing, g.Missing)
			}
		})
	}
	_, is := GatedOf(state(live(nil), nil), under(policy.Default()), Captures{})
	assert.False(t, is, "a Node without the gate")
	_, is = GatedOf(state(nil, recorded(nil)), under(policy.Default()), Captures{})
	assert.False(t, is, "a deleted Node")
}

func TestTheQuestionBeforeAGateIsLiftedSaysWhetherWorkloadsMayLand(t *testing.T) {
	gate := gatedFor(time.Hour)
	unverified := func(n *corev1.Node) {
		gate(n)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule})
	}
	lacking := recorded(set{"a": "1"}, ofAnother)
	for name, c := range map[string]struct {
		state NodeState
		want  string
	}{
		"it lacks an item":                      {state(live(nil, gate), lacking), "Workloads may then land on it although it lacks 1 item."},
		"it lacks nothing":                      {state(live(nil, gate), recorded(nil)), "It lacks nothing that is known of."},
		"it lacks an item, and is not verified": {state(live(nil, unverified), lacking), "It lacks 1 item. It takes no workloads before it is verified."},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := GatedOf(c.state, under(policy.Default()), Captures{})
			assert.Equal(t, c.want+` Lift the gate of node "n1"?`, g.Question(c.state))
		})
	}
}
