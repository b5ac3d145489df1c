package capture

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/store"
)

// Whatever keeps a Node behind the gate, an emergency opens it. What the record has comes all the same, where it can.
func TestAnEmergencyOpensANodeWhateverKeepsItBehindTheGate(t *testing.T) {
	for name, arrange := range map[string]func(w *cluster){
		"its record cannot be read": func(w *cluster) { w.Tamper("n1", []byte("no JSON")) },
		"the API server refuses a label": func(w *cluster) {
			w.admits = func(_, after *corev1.Node) error {
				if _, has := after.Labels["k"]; has {
					return errors.New("denied")
				}
				return nil
			}
		},
		"nothing but the taints of taints.register": func(*cluster) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "taints: {register: [{taint: 'example.com/starting:NoSchedule'}]}", remembered("a", 10, labels{"k": "v"}))
			arrange(w)
			w.register(node("b", "20", nil, gated))
			w.policy = w.policy.Suspending(true)
			r := w.leader()
			r.enqueueAll()
			r.works()
			assert.Empty(t, w.nodes["n1"].Spec.Taints)
			assert.Contains(t, r.reported(), GateLifted)
		})
	}
}

func TestTheGateIsLiftedBeforeAllElseInAnEmergency(t *testing.T) {
	before := remembered("a", 10, labels{"k": "v"})
	waits := node("b", "20", nil, gated)
	in := Circumstances{Policy: loadPolicy(t, "").Suspending(true), Guarded: true, Now: now}
	action := Decide(store.Entry{Record: *before}, true, observe.Of(waits), Present, in)
	assert.Equal(t, Lift, action.Step)
	assert.Nil(t, action.Write)
	assert.Empty(t, action.Add, "labels come with the next change: the API server may refuse one")
	assert.True(t, action.ByClient, "as an operator lifts it")
	require.True(t, action.LiftGate)

	action = Decide(store.Entry{Record: *before}, true, observe.Of(node("b", "21", nil)), Present, in)
	assert.NotEqual(t, Lift, action.Step, "an open Node is recorded and restored as usual")
	action = Decide(store.Entry{Record: *before}, true, observe.Of(waits), Deleted, in)
	assert.NotEqual(t, Lift, action.Step)
}
