package view

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func gatedFor(long time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.CreationTimestamp = metav1.NewTime(now.Add(-long))
		n.Spec.Taints = append(n.Spec.Taints, policy.DefaultGate.Taint())
	}
}

func deleting(n *corev1.Node) {
	stamp := metav1.NewTime(now)
	n.DeletionTimestamp, n.Finalizers = &stamp, []string{"example.com/hold"}
}

func TestWhyANodeWaits(t *testing.T) {
	old, young := gatedFor(time.Hour), gatedFor(time.Second)
	accepted := statetest.State(statetest.Live(nil, young), statetest.Recorded(nil, statetest.Quarantining(set{"a": "1"})))
	accepted.StoreEntry.AcceptedSide = store.OldMachine
	refused := CaptureStatus{Refused: map[types.UID]string{"1": "Label a is refused"}}
	tests := map[string]struct {
		state    nodestate.State
		captures CaptureStatus
		reason   string
		next     string
		missing  set
	}{
		"the record cannot be read":              {nodestate.State{Name: "n1", Node: statetest.Live(nil, old), Unreadable: errors.New("?")}, CaptureStatus{}, "its record cannot be read", "nodekeep forget n1", nil},
		"an operator has to decide":              {statetest.State(statetest.Live(nil, old), statetest.Recorded(nil, statetest.Quarantining(set{"a": "1"}))), CaptureStatus{}, "another machine has its name", "nodekeep accept record n1", set{"a": "1"}},
		"an operator has decided a moment ago":   {accepted, CaptureStatus{}, "quarantined", "nothing: capture works on it", set{"a": "1"}},
		"nobody leads":                           {statetest.State(statetest.Live(nil, old), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), CaptureStatus{LeaderlessFor: time.Hour}, "no capture has led for 60m", "nodekeep doctor", set{"a": "1"}},
		"nobody has ever led":                    {statetest.State(statetest.Live(nil, old), nil), CaptureStatus{NeverLed: true}, "no capture has ever led", "nodekeep release n1 --from gate", nil},
		"the API server refuses a label":         {statetest.State(statetest.Live(nil, old), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), refused, "1 item missing, and the API server refuses: Label a is refused", "nodekeep release n1 --from gate", set{"a": "1"}},
		"a refusal that is over":                 {statetest.State(statetest.Live(set{"a": "1"}, young), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), refused, "change not recorded yet", "nothing: capture works on it", nil},
		"capture works on it":                    {statetest.State(statetest.Live(nil, young), statetest.Recorded(set{"a": "1", "b": ""}, statetest.OfAnother)), CaptureStatus{}, "2 items missing", "nothing: capture works on it", set{"a": "1", "b": ""}},
		"capture should have been done":          {statetest.State(statetest.Live(nil, old), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), CaptureStatus{}, "1 item missing", "look at the log", set{"a": "1"}},
		"nothing but the gate is left":           {statetest.State(statetest.Live(nil, young), statetest.Recorded(nil)), CaptureStatus{}, "gate to be lifted", "nothing: capture works on it", nil},
		"it is being deleted":                    {statetest.State(statetest.Live(nil, old, deleting), statetest.Recorded(nil)), CaptureStatus{}, "it is being deleted", "example.com/hold", nil},
		"what was removed from this very object": {statetest.State(statetest.Live(nil, old), statetest.Recorded(set{"a": "1"})), CaptureStatus{}, "change not recorded yet", "look at the log", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, ok := GatedOf(tt.state, statetest.Under(policy.Default()), tt.captures)
			assert.True(t, ok)
			assert.Equal(t, tt.reason, g.Reason)
			assert.Contains(t, g.Next, tt.next)
			if len(tt.missing) == 0 {
				assert.Empty(t, g.Missing)
			} else {
				assert.Equal(t, tt.missing, g.Missing)
			}
		})
	}
	_, ok := GatedOf(statetest.State(statetest.Live(nil), nil), statetest.Under(policy.Default()), CaptureStatus{})
	assert.False(t, ok, "a Node without the gate")
	_, ok = GatedOf(statetest.State(nil, statetest.Recorded(nil)), statetest.Under(policy.Default()), CaptureStatus{})
	assert.False(t, ok, "a deleted Node")
}
