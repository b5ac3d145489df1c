package view

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	at := metav1.NewTime(now)
	n.DeletionTimestamp, n.Finalizers = &at, []string{"example.com/hold"}
}

func TestWhyANodeWaits(t *testing.T) {
	old, young := gatedFor(time.Hour), gatedFor(time.Second)
	before := ofObject("0")
	refused := Captures{Refused: map[types.UID]string{"1": "Label a is refused"}}
	tests := map[string]struct {
		sight    Sight
		captures Captures
		why      string
		next     string
		missing  set
	}{
		"the record cannot be read":            {Sight{Name: "n1", Node: live(nil, old), Unreadable: errors.New("?")}, Captures{}, "its record cannot be read", "nodekeep forget n1", nil},
		"somebody has to decide":               {sight(live(nil, old), remembered(nil, quarantining(set{"a": "1"}))), Captures{}, "another machine has its name", "nodekeep accept n1", set{"a": "1"}},
		"somebody has decided a moment ago":    {sight(live(nil, young), remembered(nil, quarantining(set{"a": "1"}), accepting(store.OldMachine))), Captures{}, "quarantined", "nothing: capture is at it", set{"a": "1"}},
		"nobody leads":                         {sight(live(nil, old), remembered(set{"a": "1"}, before)), Captures{Silent: time.Hour}, "no capture has led for 60m", "nodekeep doctor", set{"a": "1"}},
		"nobody has ever led":                  {sight(live(nil, old), nil), Captures{Never: true}, "no capture has ever led", "nodekeep gate lift n1", nil},
		"the API server refuses a label":       {sight(live(nil, old), remembered(set{"a": "1"}, before)), refused, "1 item missing, and the API server refuses: Label a is refused", "nodekeep gate lift n1", set{"a": "1"}},
		"a refusal that is over":               {sight(live(set{"a": "1"}, young), remembered(set{"a": "1"}, before)), refused, "change not recorded yet", "nothing: capture is at it", nil},
		"capture is at it":                     {sight(live(nil, young), remembered(set{"a": "1", "b": ""}, before)), Captures{}, "2 items missing", "nothing: capture is at it", set{"a": "1", "b": ""}},
		"capture should have been done":        {sight(live(nil, old), remembered(set{"a": "1"}, before)), Captures{}, "1 item missing", "look at the log", set{"a": "1"}},
		"nothing but the gate is left":         {sight(live(nil, young), remembered(nil)), Captures{}, "gate to be lifted", "nothing: capture is at it", nil},
		"it is being deleted":                  {sight(live(nil, old, deleting), remembered(nil)), Captures{}, "it is being deleted", "example.com/hold", nil},
		"it lacks what was taken off it by us": {sight(live(nil, old), remembered(set{"a": "1"})), Captures{}, "change not recorded yet", "look at the log", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, is := GatedOf(tt.sight, world(policy.Default()), tt.captures)
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
	_, is := GatedOf(sight(live(nil), nil), world(policy.Default()), Captures{})
	assert.False(t, is, "a Node without the gate")
	_, is = GatedOf(sight(nil, remembered(nil)), world(policy.Default()), Captures{})
	assert.False(t, is, "a Node that is gone")
}

func TestALeaseTellsWhetherACaptureLeads(t *testing.T) {
	renewed := func(ago time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	assert.Zero(t, SilentFor(renewed(2*time.Second), now))
	assert.Zero(t, SilentFor(renewed(20*time.Second), now), "the next one is about to take over")
	assert.Zero(t, SilentFor(renewed(-time.Hour), now), "another clock")
	assert.Equal(t, 5*time.Minute, SilentFor(renewed(5*time.Minute), now))
	made := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	assert.Equal(t, time.Hour, SilentFor(made, now), "nobody has held it")
}
