package capture

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// everyInput has rules look at facts of every kind.
const everyInput = `labels:
  rules:
  - {name: rack, set: {example.com/rack: "{inventory.cmdb.rack}"}}
  - {name: rtx, when: {devices: {driver: gpu.nvidia.com, attributes: {productName: "*RTX*"}}}, set: {gpu: rtx}}
  - {name: avx, when: {features: {cpu.cpuid.AVX512F: "*"}}, set: {avx: "yes"}}
inventory: [{name: cmdb, configMap: racks, attributes: [rack]}]
governance: {keys: [{key: team, required: true, mode: deny}], noncompliant: {taint: "example.com/noncompliant:PreferNoSchedule", after: 10m}}
`

// notItsTurn returns a resync in which n1 is reconciled only if an input has changed.
func notItsTurn(t *testing.T) (round uint32) {
	t.Helper()
	for dueForFullResync("n1", round) {
		round++
	}
	return round
}

// queues reports whether a resync queues n1. It is worked on then.
func (r *replica) queues(round uint32) bool {
	r.cluster.t.Helper()
	require.Zero(r.cluster.t, r.queue.Len())
	r.resync(round)
	queued := r.queue.Len() > 0
	require.Empty(r.cluster.t, r.works())
	return queued
}

// settles returns a leader that has found nothing to do for n1, whose team is known.
func settles(t *testing.T, w *cluster) *replica {
	t.Helper()
	w.register(node("a", "10", labels{"team": "a"}, owned("kubectl-label", "team"), gpus("0", time.Hour)))
	r := w.leader()
	if w.policy.LabelRules().LooksAtInventory() {
		r.readsRacks(`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r7"}}`)
		r.devices.setRead(w.policy.LabelRules().Drivers())
		r.features.setRead(w.policy.LabelRules().NodeFeatures())
	}
	r.releases(w.policy.RulesHash())
	require.Empty(t, r.works())
	w.passes(time.Minute) // more than what is coalesced
	r.enqueueAll()
	require.Empty(t, r.works())
	return r
}

// Each field of plan.Inputs is an input of the decision. One that is added must be here: a resync compares it, or a change of it leads to the Node.
func TestAResyncReconcilesANodeIfAnyInputOfTheDecisionHasChanged(t *testing.T) {
	inputs := map[string]func(w *cluster, r *replica){
		"Policy":       func(w *cluster, r *replica) { w.policy = loadPolicy(t, ""); r.EnqueueAll() },
		"Refused":      func(_ *cluster, r *replica) { r.refusals.NoteRefused("a", "team", now); r.EnqueueAll() },
		"GuardInForce": func(_ *cluster, r *replica) { r.Guard = guard.Known(false) },
		"ClusterUID":   func(_ *cluster, r *replica) { r.ClusterUID = func() string { return "other" } },
		"Devices": func(_ *cluster, r *replica) {
			r.devices.set("n1", []any{observe.SliceOf(gpuSlice("s", "n1", "RTX"), classify.UsedDrivers{"gpu.nvidia.com": {"productName"}})})
		},
		"Features": func(_ *cluster, r *replica) {
			r.features.set("n1", []any{observe.NodeFeatureOf(avxOf("n1"), classify.UsedFeatures{"cpu.cpuid.AVX512F"})})
		},
		"Inventory":        func(w *cluster, _ *replica) { w.passes(w.policy.Inventory()[0].StaleAfter + time.Second) },
		"ViolationOverdue": nil, // see TestANodeForWhichSomethingIsDueLaterIsNotSkipped
		"Now":              nil, // the same
		"BootWaits":        nil, // the Node is queued for the end of the wait, see TestAKubeletThatReportsAnotherBootEachTimeIsMetWithPauses
		"Predecessor":      nil, // as for MachineAmbiguous
		"MachineAmbiguous": nil, // see TestANodeThatMayFollowItsMachineIsNotSkipped
		"Trace":            nil, // what explain asks for decides nothing
		"CreateFacts":      nil, // of a Node in its CREATE
	}
	reconciles := func(t *testing.T, change func(w *cluster, r *replica)) {
		w := newCluster(t, everyInput)
		r := settles(t, w)
		require.False(t, r.queues(notItsTurn(t)), "nothing has changed")
		change(w, r)
		if r.queue.Len() == 0 {
			assert.True(t, r.queues(notItsTurn(t)))
		}
	}
	t.Run("Policy.Held", func(t *testing.T) { reconciles(t, func(_ *cluster, r *replica) { r.releases("others") }) })
	for field := range reflect.TypeFor[plan.Inputs]().Fields() {
		change, known := inputs[field.Name]
		require.True(t, known, "inputs of capture/resync.go: does a resync see that plan.Inputs.%s has changed?", field.Name)
		if change == nil {
			continue
		}
		t.Run(field.Name, func(t *testing.T) { reconciles(t, change) })
	}
}

func TestAResyncReconcilesANodeOfWhichAnEventWasMissed(t *testing.T) {
	for name, change := range map[string]func(w *cluster, r *replica){
		"its record has changed": func(w *cluster, _ *replica) {
			w.rewrites(func(record.Record) record.Record { return *remembered("a", 5, labels{"team": "b"}) })
		},
		"its record was removed": func(w *cluster, _ *replica) { w.Remove("n1") },
		"its record was made unreadable": func(w *cluster, _ *replica) {
			w.Tamper("n1", []byte("no record"))
		},
		"its labels have changed":         func(w *cluster, r *replica) { w.label("team", "b"); drain(r) },
		"its annotations leave less room": func(w *cluster, r *replica) { w.edit(withoutRoom); drain(r) },
		"a fact has changed":              func(w *cluster, r *replica) { w.edit(gpus("2", time.Hour)); drain(r) },
		"it was deleted":                  func(w *cluster, r *replica) { w.delete(); drain(r) },
		"another one was deleted before this process first listed Nodes": func(w *cluster, _ *replica) {
			w.holds(remembered("b", 5, labels{"team": "b"}, func(r *record.Record) { r.Node = "n2" }))
		},
		"the work on it has failed": func(_ *cluster, r *replica) {
			r.sees = func(string, bool, *store.Entry, error) error { return errors.New("broken") }
			r.Enqueue("n1")
			require.NotEmpty(t, r.works())
			r.sees = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "labels: {rules: [{name: gpu, when: {capacity: {nvidia.com/gpu: '>=1'}}, set: {gpu: 'true'}}]}\n")
			r := settles(t, w)
			require.False(t, r.queues(notItsTurn(t)))
			change(w, r)
			assert.True(t, r.queues(notItsTurn(t)))
		})
	}
}

// drain drops what is queued, as if no event had led there.
func drain(r *replica) {
	for r.queue.Len() > 0 {
		name, _ := r.queue.Get()
		r.queue.Done(name)
	}
}

func TestANodeForWhichSomethingIsDueLaterIsNotSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		change func(w *cluster)
	}{
		"a label that is held": {
			"labels: {rules: [{name: gpu, when: {capacity: {nvidia.com/gpu: '>=1'}}, set: {gpu: 'true'}, hold: 1h}]}",
			func(w *cluster) { w.edit(gpus("0", time.Hour)) },
		},
		"a plugin that may still register": {
			"labels: {rules: [{name: gpu, when: {capacity: {nvidia.com/gpu: '>=1'}}, set: {gpu: 'true'}}]}",
			func(w *cluster) { w.edit(gpus("0", time.Second)) },
		},
		"one that a rule of mode audit looks at": {
			"labels: {rules: [{name: gpu, mode: audit, when: {capacity: {nvidia.com/gpu: '<1'}}, set: {gpu: 'no'}}]}",
			func(w *cluster) { w.edit(gpus("0", time.Second)) },
		},
		"labels that break a rule of governance": {
			`governance: {keys: [{key: team, required: true, mode: deny}], noncompliant: {taint: "example.com/noncompliant:PreferNoSchedule", after: 10m}}`,
			func(w *cluster) { w.edit(func(n *corev1.Node) { delete(n.Labels, "team") }) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, c.policy, node("a", "10", labels{"team": "a"}, owned("kubectl-label", "team"), gpus("1", time.Hour)))
			r := w.leader()
			r.releases(w.policy.RulesHash())
			require.Empty(t, r.works())
			w.passes(time.Minute)
			c.change(w)
			require.Empty(t, r.works())
			w.passes(time.Minute)
			require.True(t, r.queues(notItsTurn(t)), "it waits")
			require.True(t, r.queues(notItsTurn(t)), "and waits")
			w.passes(2 * time.Hour)
			require.True(t, r.queues(notItsTurn(t)), "its time has come")
			w.passes(time.Hour) // what was not known may be held, too
			r.enqueueAll()
			require.Empty(t, r.works())
			w.passes(time.Hour)
			r.enqueueAll()
			require.Empty(t, r.works())
			assert.False(t, r.queues(notItsTurn(t)))
		})
	}
}

func TestANodeThatMayFollowItsMachineIsNotSkipped(t *testing.T) {
	for _, follows := range []bool{false, true} {
		w := newCluster(t, fmt.Sprintf("machine: {follow: %t}", follows), node("a", "10", nil))
		r := w.leads()
		require.Empty(t, w.NodeNames(), "nothing is recorded of it")
		r.enqueueAll()
		require.Empty(t, r.works())
		assert.Equal(t, follows, r.queues(notItsTurn(t)))
	}
}

func TestEachNodeIsDecidedAnewOnceInSoManyResyncs(t *testing.T) {
	w := newCluster(t, "")
	r := settles(t, w)
	decided, maximum := 0, map[uint32]int{}
	for round := range uint32(resyncsPerFullResync) {
		if r.queues(round) {
			decided++
		}
		for i := range 1200 {
			if dueForFullResync(fmt.Sprintf("worker-%d.example.com", i), round) {
				maximum[round]++
			}
		}
	}
	assert.Equal(t, 1, decided)
	for round, nodes := range maximum {
		assert.InDelta(t, 100, nodes, 50, "round %d", round)
	}
}
