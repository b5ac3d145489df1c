package capture

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

const (
	follows  = "machine: {follow: true}"
	machineA = "4c4c4544-0051-3010-8052-b4c04f4a3132"
	machineB = "9e3a1f70-77aa-4d0e-a8c1-0b5d52f1c9aa"
)

// called gives a Node another name than n1.
func called(name string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Name, n.UID = name, types.UID("of "+name) }
}

// recordOf returns a record of a Node of another name than n1, on machine A. It is of an object that is deleted.
func recordOf(name string, items labels, modify ...func(*record.Record)) *record.Record {
	r := remembered(types.UID("of "+name), 10, items, append([]func(*record.Record){ofMachine(machineA), goneSince(earlier)}, modify...)...)
	r.Node = name
	return r
}

// givenOf returns the annotation which says that these values were set in the CREATE, from the record of another Node.
func givenOf(name string, items labels) func(*corev1.Node) {
	stamp := record.Stamp{Followed: name}
	return stamped(stamp.Merge(items, *recordOf(name, items), 0))
}

func lives(r *record.Record) { r.DeletedAt = time.Time{} }

func following(name string, version record.Version) func(*record.Record) {
	return func(r *record.Record) { r.Followed, r.Seen[0].Version = name, version }
}

func TestANodeFollowsTheRecordThatItsMachineHasUnderAnotherName(t *testing.T) {
	gateTaint := gate.Taint().Key + ":NoSchedule"
	for name, c := range map[string]struct {
		policy  string
		records []*record.Record
		rest    []*corev1.Node
		node    *corev1.Node // n1; nil: on machine A, gated
		follows string
		shows   labels
		waits   labels
		writes  []string
		events  []string
	}{
		"of a Node that is deleted": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast", "tenant:NoSchedule": "blue"})},
			follows: "old", shows: labels{"disk": "fast", "tenant:NoSchedule": "blue"},
			writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored, GateLifted},
		},
		"and has it from the webhook already": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"})},
			node:    node("a", "20", labels{"disk": "fast"}, givenOf("old", labels{"disk": "fast"}), machine(machineA)),
			follows: "old", shows: labels{"disk": "fast"}, writes: []string{"put n1"}, events: []string{MachineChanged},
		},
		"but for what it brings itself": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast", "rack": "r1"})},
			node:    node("a", "20", labels{"disk": "slow"}, owned("ansible", "disk"), machine(machineA)),
			follows: "old", shows: labels{"disk": "slow", "rack": "r1"}, writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored},
		},
		"but not what an operator removed there": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}, removed(10, "rack"))},
			node:    node("a", "20", labels{"rack": "r1", "disk": "fast"}, givenOf("old", labels{"rack": "r1", "disk": "fast"}), machine(machineA)),
			follows: "old", shows: labels{"disk": "fast"}, writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored},
		},
		"but a protected label waits for an operator, behind the gate": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast", worker: "", "node-restriction.kubernetes.io/tier": "gold", "tenant:NoSchedule": "blue"})},
			follows: "old", shows: labels{"disk": "fast", "tenant:NoSchedule": "blue", gateTaint: ""}, waits: labels{worker: "", "node-restriction.kubernetes.io/tier": "gold"},
			writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored},
		},
		"and what waited there goes on waiting": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}, quarantining(recordOf("old", labels{worker: ""})), following("older", 10))},
			follows: "old", shows: labels{"disk": "fast", gateTaint: ""}, waits: labels{worker: ""}, writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored},
		},
		"and of a key that waited there, the value that an operator has set there since": {
			records: []*record.Record{recordOf("old", labels{worker: "since"}, quarantining(recordOf("old", labels{worker: "waited"})), following("older", 10))},
			follows: "old", shows: labels{gateTaint: ""}, waits: labels{worker: "since"}, writes: []string{"put n1"}, events: []string{MachineChanged},
		},
		"and of a key that waited there, nothing that an operator has removed there since": {
			records: []*record.Record{recordOf("old", nil, removed(10, worker), quarantining(recordOf("old", labels{worker: "waited"})), following("older", 10))},
			follows: "old", writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, GateLifted},
		},
		"of another cluster": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}, ofCluster("there"))},
			follows: "old", shows: labels{"disk": "fast"}, writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored, GateLifted},
		},
		"and keeps what the webhook restored from a name that another machine has since, whatever a third Node followed before": {
			records: []*record.Record{recordOf("old", labels{"disk": "slow"}, ofMachine(machineB)), recordOf("older", labels{"rack": "r1"}), recordOf("moved", nil, following("older", 12), ofMachine(machineB))},
			node:    node("a", "20", labels{"disk": "fast"}, givenOf("old", labels{"disk": "fast"}), machine(machineA)),
			shows:   labels{"disk": "fast"}, writes: []string{"put n1"},
		},
		"of the last of three names": {
			records: []*record.Record{recordOf("first", labels{"disk": "slow"}), recordOf("second", labels{"disk": "fast"}, following("first", 12))},
			follows: "second", shows: labels{"disk": "fast"}, writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored, GateLifted},
		},
		"but none where no record is of the machine": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}, ofMachine(machineB))}, events: []string{GateLifted}, writes: []string{"patch n1"},
		},
		"but none where the policy does not say so": {
			policy: "machine: {follow: false}", records: []*record.Record{recordOf("old", labels{"disk": "fast"})}, events: []string{GateLifted}, writes: []string{"patch n1"},
		},
		"but none of two, as of cloned images": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}), recordOf("older", labels{"disk": "slow"})},
			events:  []string{MachineAmbiguous, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"but the taints of two, as of cloned images": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast", "tenant:NoExecute": "blue"}), recordOf("older", labels{"disk": "slow", "busy:NoSchedule": ""})},
			shows:   labels{"tenant:NoExecute": "blue", "busy:NoSchedule": ""},
			events:  []string{MachineAmbiguous, LabelsRestored, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"but the taints of one that is deleted, though another one that lives has its identity": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast", "tenant:NoExecute": "blue"}), recordOf("live", labels{"disk": "slow"}, lives)},
			rest:    []*corev1.Node{node("", "11", labels{"disk": "slow"}, called("live"), machine(machineA))},
			shows:   labels{"tenant:NoExecute": "blue"},
			events:  []string{MachineAmbiguous, LabelsRestored, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"but the taints of one that another Node which lives has followed": {
			records: []*record.Record{recordOf("old", labels{"tenant:NoExecute": "blue"}), recordOf("live", labels{"disk": "slow"}, lives, following("old", 12), ofMachine(machineB))},
			rest:    []*corev1.Node{node("", "13", labels{"disk": "slow"}, called("live"), machine(machineB))},
			shows:   labels{"tenant:NoExecute": "blue"},
			events:  []string{MachineAmbiguous, LabelsRestored, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"of a Node that is deleted, whatever a kubelet that lives claims since then": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast", "tenant:NoExecute": "blue"}), recordOf("live", labels{"disk": "slow"}, lives, func(r *record.Record) { r.Seen[0].Version, r.MachineSince = 15, 15 })},
			rest:    []*corev1.Node{node("", "15", labels{"disk": "slow"}, called("live"), machine(machineA))},
			follows: "old", shows: labels{"disk": "fast", "tenant:NoExecute": "blue"},
			writes: []string{"put n1", "patch n1"}, events: []string{MachineChanged, LabelsRestored, GateLifted},
		},
		"but none of one that is deleted and one that lives": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}), recordOf("live", labels{"disk": "slow"}, lives)},
			rest:    []*corev1.Node{node("", "11", labels{"disk": "slow"}, called("live"), machine(machineA))},
			events:  []string{MachineAmbiguous, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"but none of a Node that lives, whose identity a kubelet claims": {
			records: []*record.Record{recordOf("live", labels{"disk": "fast"}, lives)},
			rest:    []*corev1.Node{node("", "11", labels{"disk": "fast"}, called("live"), machine(machineA))},
			node:    node("a", "20", labels{"disk": "fast"}, givenOf("live", labels{"disk": "fast"}), machine(machineA)), // a webhook that was late has restored it
			events:  []string{MachineAmbiguous, LabelsRestored}, writes: []string{"put n1", "patch n1"},
		},
		"but none of a Node that has just registered again, on any machine": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"})},
			rest:    []*corev1.Node{node("", "11", labels{"disk": "fast"}, called("old"), machine(machineB))},
			events:  []string{MachineAmbiguous, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"but none of a Node that was deleted after this one registered": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}, func(r *record.Record) { r.Seen[0].Version = 30 })},
			events:  []string{MachineAmbiguous, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"but none that waits for an operator to decide between two machines": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}, quarantining(recordOf("old", labels{"disk": "slow"}, ofMachine(machineB))))},
			policy:  "machine: {follow: true, onMismatch: quarantine}", events: []string{MachineAmbiguous, GateLifted}, writes: []string{"put n1", "patch n1"},
		},
		"but none by the identifier that a vendor ships on every board": {
			records: []*record.Record{recordOf("old", labels{"disk": "fast"}, ofMachine("03000200-0400-0500-0006-000700080009"))},
			node:    node("a", "20", nil, gated, machine("03000200-0400-0500-0006-000700080009")), events: []string{GateLifted}, writes: []string{"patch n1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, cmp.Or(c.policy, follows))
			for _, r := range c.records {
				w.holds(r)
			}
			if c.node == nil {
				c.node = node("a", "20", nil, gated, machine(machineA))
			}
			w.register(c.node)
			r := w.leader(func(o *Options) { o.ClusterUID = func() string { return "here" } })
			for _, o := range c.rest {
				w.register(o)
			}
			r.reconciles()
			assert.Equal(t, orNoLabels(c.shows), w.shows())
			assert.Equal(t, c.events, r.reported())
			var writes []string
			for _, write := range r.wrote() {
				if strings.HasSuffix(write, " n1") {
					writes = append(writes, write)
				}
			}
			assert.Equal(t, c.writes, writes)
			if entry, err := w.GetFromAPI(t.Context(), "n1"); err == nil {
				assert.Equal(t, c.follows, entry.Record.Followed)
				assert.Equal(t, c.waits != nil, entry.Record.Quarantined != nil)
				if c.waits != nil {
					assert.Equal(t, c.waits, entry.Record.Quarantined.Items())
				}
			} else {
				assert.Empty(t, c.follows)
			}
			r.rests()
			assert.Empty(t, r.reported(), "an Event is reported once")
		})
	}
}

func TestOfThreeNamesOfOneMachineTheLastOneIsGivenTheProtectedLabelThatAnOperatorSetLast(t *testing.T) {
	w := newCluster(t, follows)
	r := w.leader()
	var accepted store.Side
	r.sees = func(name string, _ bool, entry *store.Entry, err error) error {
		if name == "n1" && entry.Record.Quarantined != nil {
			entry.AcceptedSide = accepted
		}
		return err
	}
	w.register(node("", "200", labels{worker: "first"}, called("first"), owned("kubectl-label", worker), machine(machineA)))
	r.reconciles()
	w.deleteNode("first")
	r.reconciles()
	w.register(node("", "300", labels{worker: "second"}, called("second"), owned("kubectl-label", worker), gated, machine(machineA))) // set before capture has worked on it
	r.reconciles()
	entry, err := w.Get("second")
	require.NoError(t, err)
	require.Equal(t, "first", entry.Record.Followed)
	require.Equal(t, labels{worker: "first"}, entry.Record.Quarantined.Items())
	require.Equal(t, labels{worker: "second"}, entry.Record.Items())
	w.deleteNode("second")
	r.reconciles()

	w.register(node("a", "400", nil, gated, machine(machineA)))
	r.reconciles()
	require.Equal(t, "second", w.record().Followed)
	assert.Equal(t, labels{worker: "second"}, w.record().Quarantined.Items())
	accepted = store.OldMachine
	r.reconciles()
	assert.Equal(t, labels{worker: "second"}, w.shows())
}

func TestANodeWaitsForTheLastStateOfTheNodeThatItFollows(t *testing.T) {
	for name, c := range map[string]struct {
		record *record.Record
		state  *corev1.Node // the last of the old Node; nil: the watch brought nothing
		want   labels
	}{
		"where its record does not say that it is deleted":                  {recordOf("old", labels{"disk": "fast"}, lives), nil, labels{"disk": "fast"}},
		"where its last change is not recorded":                             {recordOf("old", labels{"disk": "fast"}, lives), node("", "15", labels{"disk": "faster"}, called("old"), machine(machineA)), labels{"disk": "faster"}},
		"where it registered again, was changed and deleted a moment after": {recordOf("old", labels{"disk": "fast"}), node("", "15", labels{"disk": "faster"}, called("old"), func(n *corev1.Node) { n.UID = "second of old" }, machine(machineA)), labels{"disk": "faster"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, follows, c.record)
			r := w.leader()
			for r.queue.Len() > 0 { // nobody works on the old Node yet
				name, _ := r.queue.Get()
				r.queue.Done(name)
			}
			if c.state != nil {
				compact := observe.CompactNodeOf(observe.FromNode(c.state))
				r.observations.observeLive(compact)
				r.observations.observeDeleted(compact)
			}
			w.register(node("a", "20", nil, gated, machine(machineA)))
			require.NoError(t, r.reconcileOne(t.Context(), "n1"))
			assert.Empty(t, r.wrote(), "neither a record without what it follows, nor the gate lifted")
			require.Empty(t, r.works()) // the old Node's turn
			r.Enqueue("n1")             // as a second later
			require.Empty(t, r.works())
			assert.Equal(t, c.want, w.shows())
			assert.Equal(t, "old", w.record().Followed)
			assert.NotContains(t, r.reported(), MachineAmbiguous)
		})
	}
}

func TestOfTwoMachinesThatClaimOneIdentityAtOnceOnlyOneFollows(t *testing.T) {
	w := newCluster(t, follows, recordOf("old", labels{"disk": "fast"}))
	r := w.leads()
	restored := []func(*corev1.Node){givenOf("old", labels{"disk": "fast"}), machine(machineA)} // by a webhook that knew of none of them
	w.register(node("a", "20", labels{"disk": "fast"}, restored...))
	w.register(node("", "21", labels{"disk": "fast"}, append(restored, called("n2"))...))

	var decided sync.WaitGroup
	decided.Add(2)
	begins := map[string]func(){"n1": sync.OnceFunc(decided.Done), "n2": sync.OnceFunc(decided.Done)}
	r.hook = func(string) { decided.Wait() } // both have begun before one writes
	r.sees = func(name string, _ bool, _ *store.Entry, err error) error {
		if began, ok := begins[name]; ok {
			began()
		}
		return err
	}
	var workers sync.WaitGroup
	for _, name := range []string{"n1", "n2"} {
		workers.Go(func() { assert.NoError(t, r.reconcileOne(context.WithoutCancel(t.Context()), name)) })
	}
	workers.Wait()
	require.Empty(t, r.works())

	var followers []string
	shown := map[string]labels{}
	for _, name := range []string{"n1", "n2"} {
		if entry, err := w.Get(name); err == nil && entry.Record.Followed == "old" {
			followers = append(followers, name)
		}
		n, err := w.get(name)
		require.NoError(t, err)
		shown[name] = n.Labels
	}
	require.Len(t, followers, 1)
	for name, items := range shown {
		if name == followers[0] {
			assert.Equal(t, labels{"disk": "fast"}, items)
		} else {
			assert.Empty(t, items, "what the webhook restored on the other one is removed")
		}
	}
	assert.Contains(t, r.reported(), MachineAmbiguous)
}

func TestARecordThatHasChangedSinceItWasReadIsNotFollowedYet(t *testing.T) {
	w := newCluster(t, follows, recordOf("old", labels{"disk": "fast"}), node("a", "20", nil, gated, machine(machineA)))
	r := w.leader()
	r.sees = func(name string, live bool, entry *store.Entry, err error) error {
		if name == "old" && live {
			entry.Version += "1"
		}
		return err
	}
	require.Empty(t, r.works())
	assert.Empty(t, r.wrote())
	r.sees = nil
	r.reconciles()
	assert.Equal(t, labels{"disk": "fast"}, w.shows())
}

func TestTheEventOfAnAmbiguousMachineIsBounded(t *testing.T) {
	w := newCluster(t, follows)
	for i := range 50 {
		w.holds(recordOf(fmt.Sprintf("%s-%02d", strings.Repeat("x", 200), i), labels{"disk": "fast"}))
	}
	w.register(node("a", "20", nil, gated, machine(machineA)))
	r := w.leads()
	event := <-r.events.Events
	assert.Contains(t, event, MachineAmbiguous)
	assert.Contains(t, event, "50 Nodes")
	assert.Less(t, len(event), 1024, "the API server refuses longer Events")
}

func TestANodeThatNothingIsKnownOfFollowsNothingWhereTheIndexFails(t *testing.T) {
	w := newCluster(t, follows, recordOf("old", labels{"disk": "fast"}), node("a", "20", labels{"own": "x"}, gated, machine(machineA)))
	r := w.leader(func(o *Options) { o.Records = withoutIndex{o.Records} })
	require.Empty(t, r.works())
	assert.Equal(t, labels{"own": "x"}, w.shows(), "it is a Node like any other")
	assert.Empty(t, w.record().Followed)
}

// withoutIndex are records that cannot be looked up by machine.
type withoutIndex struct{ RecordStore }

func (withoutIndex) ListByMachine(record.Machine) ([]record.Record, error) {
	return nil, assert.AnError
}
