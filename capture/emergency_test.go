package capture

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Whatever keeps a Node behind the gate, an emergency opens it. What the record has comes all the same, where it can.
func TestAnEmergencyOpensANodeWhateverKeepsItBehindTheGate(t *testing.T) {
	for name, arrange := range map[string]func(w *cluster){
		"its record cannot be read": func(w *cluster) { w.Tamper("n1", []byte("no JSON")) },
		"the API server refuses a label": func(w *cluster) {
			w.admits = func(_, updated *corev1.Node) error {
				if _, ok := updated.Labels["k"]; ok {
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
			w.policy = w.policy.WithEmergency(true)
			r := w.leader()
			r.enqueueAll()
			r.works()
			assert.Empty(t, w.nodes["n1"].Spec.Taints)
			assert.Contains(t, r.reported(), GateLifted)
		})
	}
}

// ConfigMaps that can be neither read nor written keep no gate on.
func TestAnEmergencyOpensANodeWithoutItsRecord(t *testing.T) {
	for name, c := range map[string]struct {
		policy  string
		holds   []any
		prepare func(w *cluster) // what happens before the Node registers
	}{
		"it has a record":    {"", []any{remembered("b", 10, labels{"k": "v"})}, func(*cluster) {}},
		"it has none":        {"", nil, func(*cluster) {}},
		"that is unreadable": {"", []any{remembered("b", 10, labels{"k": "v"})}, func(w *cluster) { w.Tamper("n1", []byte("no JSON")) }},
		"the end of an object of its name is to be recorded first": {
			"", []any{remembered("a", 5, labels{"k": "v"}), node("a", "10", labels{"k": "w"})}, func(w *cluster) { w.delete() },
		},
		"the end of its machine's object of another name is to be recorded first": {
			follows, []any{recordOf("old", labels{"disk": "fast"}), named("old", node("of old", "10", labels{"disk": "fast"}, machine(machineA)))},
			func(w *cluster) { w.deleteNode("old") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, c.policy, c.holds...)
			w.policy = w.policy.WithEmergency(true)
			r := w.leader()
			broken := errors.New("etcdserver: request timed out")
			r.refuses = broken
			r.sees = func(_ string, live bool, _ *store.Entry, err error) error {
				if live {
					return broken
				}
				return err
			}
			c.prepare(w)
			w.register(node("b", "200", nil, gated, machine(machineA)))
			r.Enqueue("n1")
			_ = r.works()
			assert.Empty(t, w.node().Spec.Taints)
			assert.Contains(t, r.reported(), GateLifted)
		})
	}
}

// Whenever an emergency ends, no record is written of which nothing could be read.
func TestTheEndOfAnEmergencyOverwritesNoUnreadableRecord(t *testing.T) {
	for asked := range 30 {
		w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}), node("a", "20", labels{"own": "1"}, gated))
		w.Tamper("n1", []byte("no JSON"))
		left := asked
		r := w.leader(func(o *Options) {
			o.Policy = func() policy.Policy {
				left--
				return w.policy.WithEmergency(left >= 0)
			}
		})
		r.enqueueAll()
		require.Empty(t, r.works())
		assert.NotContains(t, r.wrote(), "put n1", "after policy was asked for %d times", asked)
	}
}

func TestTheGateIsLiftedBeforeAllElseInAnEmergency(t *testing.T) {
	prev := remembered("a", 10, labels{"k": "v"})
	waits := node("b", "20", nil, gated)
	inputs := plan.Inputs{Policy: loadPolicy(t, "").WithEmergency(true), GuardInForce: true, Now: now}
	action := Decide(store.Entry{Record: *prev}, true, observe.FromNode(waits), NodePresent, inputs)
	assert.Equal(t, StepLiftGate, action.Step)
	assert.Nil(t, action.Record)
	assert.Empty(t, action.WithCause(plan.CauseRecord).Values(), "labels come with the next change: the API server may refuse one")
	assert.True(t, action.ByClient, "as an operator lifts it")
	require.True(t, action.LiftsGate())

	action = Decide(store.Entry{Record: *prev}, true, observe.FromNode(node("b", "21", nil)), NodePresent, inputs)
	assert.NotEqual(t, StepLiftGate, action.Step, "an open Node is recorded and restored as usual")
	action = Decide(store.Entry{Record: *prev}, true, observe.FromNode(waits), NodeDeleted, inputs)
	assert.NotEqual(t, StepLiftGate, action.Step)
}
