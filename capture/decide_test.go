package capture

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// decision is what is decided for one observation.
type decision struct {
	policy    string         // sections of the policy file
	record    *record.Record // nil: there is none
	accepted  store.Side
	node      *corev1.Node
	event     Presence
	unguarded bool // the guard policies are not in force
	cluster   string
	refused   []string
	want      outcome
}

// outcome is an action as users notice it.
type outcome struct {
	step Step
	// What the record remembers once it is written, of which object it is then, and whether that is deleted.
	remembers labels
	object    types.UID
	deleted   bool
	setAside  labels // of the machine that had the name before

	give, correct       labels
	remove              []string
	put, take, register string // taints
	lift                bool
	boot                string // that the stamp comes to name
	taken               string // taints that rules want and cannot have
}

func (d decision) decide(t *testing.T, instant time.Time) Action {
	t.Helper()
	inputs := plan.Inputs{Policy: loadPolicy(t, d.policy), GuardInForce: !d.unguarded, ClusterUID: d.cluster, Now: instant, Refused: map[string]bool{}}
	for _, key := range d.refused {
		inputs.Refused[key] = true
	}
	entry := store.Entry{AcceptedSide: d.accepted}
	if d.record != nil {
		entry.Record = *d.record
	}
	return Decide(entry, d.record != nil, observe.FromNode(d.node), d.event, inputs)
}

func outcomeOf(a Action) outcome {
	corrected := a.WithCause(plan.CauseCorrection)
	derived := a.WithCause(plan.CauseDerivedTaint)
	got := outcome{
		step: a.Step, give: a.WithCause(plan.CauseRecord).Values(), correct: corrected.Values(), remove: corrected.Removed(), lift: a.LiftsGate(), boot: a.Boot,
		put: policy.Shown(derived.Taints(false)), take: policy.Shown(derived.Taints(true)), register: policy.Shown(a.WithCause(plan.CauseRegistrationTaint).Taints(false)), taken: policy.Shown(a.TaintConflicts),
	}
	if a.Record != nil {
		got.remembers, got.object, got.deleted = a.Record.Items(), a.Record.Newest().UID, !a.Record.DeletedAt.IsZero()
		if a.Record.Quarantined != nil {
			got.setAside = a.Record.Quarantined.Items()
		}
	}
	for _, items := range []*labels{&got.remembers, &got.give, &got.correct} {
		if len(*items) == 0 {
			*items = nil
		}
	}
	got.remove = append([]string(nil), got.remove...) // nil where it is empty
	return got
}

func check(t *testing.T, decisions map[string]decision) {
	t.Helper()
	for name, d := range decisions {
		t.Run(name, func(t *testing.T) {
			got := d.decide(t, now)
			assert.Equal(t, d.want, outcomeOf(got))
			if got.Record == nil {
				assertValid(t, d.node, got)
			}
		})
	}
}

// patchOf returns the body of the PATCH that makes a change.
func patchOf(t *testing.T, n *observe.Node, change plan.Plan) string {
	t.Helper()
	body, err := PatchFor(n, change)
	require.NoError(t, err)
	return string(body)
}

// assertValid checks that a change cannot make the Node invalid, which would have the API server refuse all of it.
func assertValid(t *testing.T, n *corev1.Node, action Action) {
	t.Helper()
	body := patchOf(t, observe.FromNode(n), action.Plan)
	var sent corev1.Node
	require.NoError(t, json.Unmarshal([]byte(body), &sent))
	keys := map[string]bool{}
	for _, taint := range sent.Spec.Taints {
		assert.False(t, keys[record.TaintKey(taint)], "twice: %s", body)
		keys[record.TaintKey(taint)] = true
	}
}

func TestANodeWithoutARecord(t *testing.T) {
	check(t, map[string]decision{
		"its labels and taints are recorded, less what other components own": {
			node: node("a", "10", labels{"k": "v", "kubernetes.io/hostname": "n1", "maintenance:NoExecute": "disk", "node.kubernetes.io/not-ready:NoSchedule": "", "ToBeDeletedByClusterAutoscaler:NoSchedule": "1"}),
			want: outcome{step: StepCreateRecord, remembers: labels{"k": "v", "maintenance:NoExecute": "disk"}, object: "a"},
		},
		"behind the gate: recorded first, so that nothing is lost while the gate is lifted": {
			node: node("a", "10", labels{"k": "v"}, gated),
			want: outcome{step: StepCreateRecord, remembers: labels{"k": "v"}, object: "a"},
		},
		"with nothing to record: no record is made": {
			node: node("a", "10", labels{"kubernetes.io/hostname": "n1"}),
			want: outcome{step: NoStep},
		},
		"with nothing to record, behind the gate: the gate is lifted": {
			node: node("a", "10", labels{"node.kubernetes.io/not-ready:NoSchedule": ""}, gated),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"with nothing to record, behind the gate, waits for its finalizers: nothing": {
			node: node("a", "10", nil, gated, deleting),
			want: outcome{step: NoStep},
		},
		"deleted: its labels are recorded all the same": {
			node: node("a", "10", labels{"k": "v"}), event: NodeDeleted,
			want: outcome{step: StepCreateRecord, remembers: labels{"k": "v"}, object: "a", deleted: true},
		},
		"deleted with nothing to record: a record says so, since no older observation may count any more": {
			node: node("a", "10", nil), event: NodeDeleted,
			want: outcome{step: StepCreateRecord, object: "a", deleted: true},
		},
	})
}

func TestTheSameNodeObject(t *testing.T) {
	check(t, map[string]decision{
		"a heartbeat writes nothing": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}),
			want: outcome{step: NoStep},
		},
		"the very state that was recorded, behind the gate: the gate is lifted": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "10", labels{"k": "v"}, gated),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"changed, added and removed labels: the Node is right": {
			record: remembered("a", 10, labels{"changed": "1", "removed": "1", "same": "1"}),
			node:   node("a", "11", labels{"changed": "2", "added": "1", "same": "1"}),
			want:   outcome{step: StepUpdateRecord, remembers: labels{"changed": "2", "added": "1", "same": "1"}, object: "a"},
		},
		"its record says that it is deleted, and it lives": {
			record: remembered("a", 10, labels{"k": "v"}, goneSince(earlier)), node: node("a", "11", labels{"k": "v"}),
			want: outcome{step: StepUpdateRecord, remembers: labels{"k": "v"}, object: "a"},
		},
		"behind the gate and waits for its finalizers: nothing": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}, gated, deleting),
			want: outcome{step: NoStep},
		},
		"deleted: the last state counts": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "12", labels{"k": "last"}), event: NodeDeleted,
			want: outcome{step: StepMarkDeleted, remembers: labels{"k": "last"}, object: "a", deleted: true},
		},
		"deleted, and the last observed state is older than the record: only that it is deleted": {
			record: remembered("a", 10, labels{"k": "new"}), node: node("a", "8", labels{"k": "old"}), event: NodeDeleted,
			want: outcome{step: StepMarkDeleted, remembers: labels{"k": "new"}, object: "a", deleted: true},
		},
		"deleted, received twice: nothing the second time": {
			record: remembered("a", 12, labels{"k": "v"}, goneSince(earlier)), node: node("a", "12", labels{"k": "v"}), event: NodeDeleted,
			want: outcome{step: NoStep},
		},
		"its machine becomes known": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}, machine("m1")),
			want: outcome{step: StepUpdateRecord, remembers: labels{"k": "v"}, object: "a"},
		},
	})
}

func TestANewNodeObject(t *testing.T) {
	check(t, map[string]decision{
		"has all: its record is of this object from now on": {
			record: remembered("a", 10, labels{"k": "v"}, goneSince(earlier)), node: node("b", "20", labels{"k": "v"}, given(labels{"k": "v"})),
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v"}, object: "b"},
		},
		"has all, behind the gate: recorded before the gate is lifted": {
			record: remembered("a", 10, labels{"k": "v"}, goneSince(earlier)), node: node("b", "20", labels{"k": "v"}, gated, given(labels{"k": "v"})),
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v"}, object: "b"},
		},
		"registered without the webhook: it gets everything, and the gate is lifted in the same request": {
			record: remembered("a", 10, labels{"k": "v", worker: "", "maintenance:NoExecute": "disk"}, goneSince(earlier)), node: node("b", "20", nil, gated),
			want: outcome{step: StepRestore, give: labels{"k": "v", worker: "", "maintenance:NoExecute": "disk"}, lift: true},
		},
		"registered without the webhook and without a gate: it gets everything": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("b", "20", nil),
			want: outcome{step: StepRestore, give: labels{"k": "v"}},
		},
		"brought a label of its own: recorded first, then the others are restored": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("b", "20", labels{"own": "x"}, gated),
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v", "own": "x"}, object: "b"},
		},
		"protected labels were deferred: they are restored, and the gate is lifted": {
			record: remembered("a", 10, labels{"k": "v", worker: ""}), node: node("b", "20", labels{"k": "v"}, gated, given(labels{"k": "v"})),
			want: outcome{step: StepRestore, give: labels{worker: ""}, lift: true},
		},
		"the policy never restores protected labels: they stay remembered, and the gate is lifted": {
			policy: "labels: {protected: never}",
			record: remembered("b", 20, labels{"k": "v", worker: ""}, notShown(worker)), node: node("b", "20", labels{"k": "v"}, gated),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"a protected label is said to have been there, without guard policies: a kubelet can write that, so it is restored": {
			unguarded: true, record: remembered("a", 10, labels{worker: ""}), node: node("b", "21", nil, given(labels{worker: ""}), gated),
			want: outcome{step: StepRestore, give: labels{worker: ""}, lift: true},
		},
		"a taint is said to have been there, without guard policies: a kubelet can write that, so it is restored": {
			unguarded: true, record: remembered("a", 10, labels{"maintenance:NoExecute": "disk"}), node: node("b", "21", nil, given(labels{"maintenance:NoExecute": "disk"})),
			want: outcome{step: StepRestore, give: labels{"maintenance:NoExecute": "disk"}},
		},
		"an ordinary label is said to have been there, without guard policies: a kubelet may remove it anyway": {
			unguarded: true, record: remembered("a", 10, labels{"k": "v"}), node: node("b", "21", nil, given(labels{"k": "v"})),
			want: outcome{step: StepAdoptObject, object: "b"},
		},
		"an invalid label of the record is never restored": {
			record: remembered("a", 10, labels{"bad key": "v", "k": "not valid!", "good": "v"}), node: node("b", "20", nil, gated),
			want: outcome{step: StepRestore, give: labels{"good": "v"}, lift: true},
		},
		"the API server refuses a label: the others are restored, and the gate stays": {
			record: remembered("a", 10, labels{"k": "v", worker: ""}), node: node("b", "20", nil, gated), refused: []string{worker},
			want: outcome{step: StepRestore, give: labels{"k": "v"}},
		},
		"all that is missing is refused: recorded as it is, nothing is forgotten": {
			record: remembered("a", 10, labels{"k": "v", worker: ""}), node: node("b", "21", labels{"k": "v"}, gated, given(labels{"k": "v"})), refused: []string{worker},
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v", worker: ""}, object: "b"},
		},
		"a label was refused, and the record is up to date: the gate stays": {
			record: remembered("a", 10, labels{"k": "v", worker: ""}, later("b", 21)), node: node("b", "22", labels{"k": "v"}, gated, given(labels{"k": "v"})), refused: []string{worker},
			want: outcome{step: NoStep},
		},
		"a label was refused before a restart: it is tried again": {
			record: remembered("a", 10, labels{"k": "v", worker: ""}, later("b", 21)), node: node("b", "22", labels{"k": "v"}, gated, given(labels{"k": "v"})),
			want: outcome{step: StepRestore, give: labels{worker: ""}, lift: true},
		},
		"a label was refused, and the policy never restores it now: the gate is lifted": {
			policy: "labels: {protected: never}",
			record: remembered("a", 10, labels{"k": "v", worker: ""}, later("b", 21)), node: node("b", "22", labels{"k": "v"}, gated, given(labels{"k": "v"})), refused: []string{worker},
			want: outcome{step: StepLiftGate, lift: true},
		},
		"a correction is refused: the gate stays, as for what is missing": {
			record: remembered("a", 11, labels{"k": "new"}, later("b", 20)), node: node("b", "20", labels{"k": "old"}, gated, given(labels{"k": "old"})), refused: []string{"k"},
			want: outcome{step: NoStep},
		},
		"a removal is refused: the gate stays, as for what is missing": {
			record: remembered("a", 11, labels{"k": "v"}, removed(11, "old"), later("b", 20)), node: node("b", "20", labels{"k": "v", "old": "x"}, gated, given(labels{"k": "v", "old": "x"})), refused: []string{"old"},
			want: outcome{step: NoStep},
		},
		"restored from a stale record: corrected and removed before the gate is lifted": {
			record: remembered("a", 11, labels{"k": "new"}, removed(11, "old")), node: node("b", "20", labels{"k": "stale", "old": "x"}, gated, given(labels{"k": "stale", "old": "x"})),
			want: outcome{step: StepRestore, correct: labels{"k": "new"}, remove: []string{"old"}, lift: true},
		},
		"a taint is said to come from a stale record, without guard policies: a kubelet can write that, so it stays": {
			unguarded: true, record: remembered("a", 11, labels{"k": "v"}, later("b", 20), removed(11, "maintenance:NoExecute")),
			node: node("b", "21", labels{"k": "v", "maintenance:NoExecute": "disk"}, given(labels{"k": "v", "maintenance:NoExecute": "disk"})),
			want: outcome{step: NoStep},
		},
		"without room for annotations: restored all the same": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("b", "20", nil, withoutRoom, gated),
			want: outcome{step: StepRestore, give: labels{"k": "v"}, lift: true},
		},
		"waits for its finalizers and lacks labels: it is given nothing": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("b", "20", nil, gated, deleting),
			want: outcome{step: NoStep},
		},
		"waits for its finalizers, and a client has edited it: recorded, nothing is given": {
			record: remembered("a", 10, labels{"k": "v", "kept": "1"}), node: node("b", "20", labels{"k": "new", "added": "1"}, gated, deleting, given(labels{"k": "v"}), owned("kubectl-label", "k")),
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "new", "kept": "1", "added": "1"}, object: "b"},
		},
		"deleted before it was adopted, with all": {
			record: remembered("a", 10, labels{"k": "v"}, goneSince(earlier)), node: node("b", "20", labels{"k": "v"}, given(labels{"k": "v"})), event: NodeDeleted,
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v"}, object: "b", deleted: true},
		},
		"deleted before it got everything: nothing is lost, and what clients added counts": {
			record: remembered("a", 10, labels{"k": "v", worker: ""}, goneSince(earlier)), node: node("b", "20", labels{"k": "v", "added": "1"}, given(labels{"k": "v"})), event: NodeDeleted,
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v", worker: "", "added": "1"}, object: "b", deleted: true},
		},
		"deleted with labels from a stale record: the record is right": {
			record: remembered("a", 11, labels{"k": "new"}, removed(11, "old"), goneSince(earlier)), node: node("b", "20", labels{"k": "stale", "old": "x"}, given(labels{"k": "stale", "old": "x"})), event: NodeDeleted,
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "new"}, object: "b", deleted: true},
		},
	})
}

func TestAnOlderNodeObjectThatIsReceivedLate(t *testing.T) {
	check(t, map[string]decision{
		"it is gated, and its record is of a later object: it is given nothing": {
			record: remembered("b", 20, labels{"k": "v"}), node: node("a", "15", labels{"k": "v"}, gated),
			want: outcome{step: NoStep},
		},
	})
}

func TestThePolicyFiltersAndForgetsNothing(t *testing.T) {
	check(t, map[string]decision{
		"it does not keep a recorded label any more: remembered, and nothing is written": {
			policy: "labels: {keep: [other]}", record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}),
			want: outcome{step: NoStep},
		},
		"it does not keep a recorded taint any more: remembered, and nothing is written": {
			policy: "taints: {ignore: [maintenance]}", record: remembered("a", 10, labels{"maintenance:NoExecute": "disk"}), node: node("a", "11", labels{"maintenance:NoExecute": "disk"}),
			want: outcome{step: NoStep},
		},
		"a new object lacks a label that it does not keep: not restored, remembered, and the gate is lifted next": {
			policy: "labels: {ignore: [k]}", record: remembered("a", 10, labels{"k": "v"}), node: node("b", "20", nil, gated),
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v"}, object: "b"},
		},
		"it keeps the label again, on the object on which the label is missing: restored": {
			record: remembered("a", 10, labels{"k": "v"}, later("b", 20), notShown("k")), node: node("b", "21", nil),
			want: outcome{step: StepRestore, give: labels{"k": "v"}},
		},
		"a label that it did not keep was removed: it is not restored": {
			policy: "labels: {ignore: [k]}", record: remembered("a", 10, labels{"k": "v", "other": "1"}), node: node("a", "11", labels{"other": "1"}),
			want: outcome{step: StepUpdateRecord, remembers: labels{"other": "1"}, object: "a"},
		},
		"a restored label that it did not keep was removed: it is not restored": {
			policy: "labels: {ignore: [k]}", record: remembered("a", 10, labels{"k": "v", "other": "1"}), node: node("b", "21", labels{"other": "1"}, given(labels{"k": "v", "other": "1"})),
			want: outcome{step: StepAdoptObject, remembers: labels{"other": "1"}, object: "b"},
		},
		"a label was removed while an ownership annotation claimed it: it is not restored": {
			record: remembered("a", 10, labels{"k": "v", "other": "1"}), node: node("a", "11", labels{"other": "1"}, annotated("cluster.x-k8s.io/labels-from-machine", "k")),
			want: outcome{step: StepUpdateRecord, remembers: labels{"other": "1"}, object: "a"},
		},
	})
}

func TestAnotherMachineOfTheName(t *testing.T) {
	const quarantine = "machine: {onMismatch: quarantine}"
	const forget = "machine: {onMismatch: forget}"
	const isolation = `labels: {keep: ["*", node-restriction.kubernetes.io/*]}`
	tier := labels{"node-restriction.kubernetes.io/tier": "gold"}
	old := func() *record.Record { return remembered("a", 10, labels{"k": "v"}, ofMachine("m1")) }
	quarantined := func(modify ...func(*record.Record)) *record.Record {
		return remembered("b", 20, labels{"own": "x"}, append(modify, ofMachine("m2"), quarantining(old()))...)
	}
	begun := func(modify ...func(*record.Record)) *record.Record {
		prev := func(r *record.Record) {
			r.Earlier = []record.Record{*remembered("a", 10, labels{"k": "v"}, ofMachine("m1"))}
			r.Earlier[0].DeletedAt = now
		}
		return remembered("b", 20, labels{"own": "x"}, append([]func(*record.Record){ofMachine("m2"), prev}, modify...)...)
	}
	check(t, map[string]decision{
		"the policy restores: the name counts": {
			record: old(), node: node("b", "20", labels{"k": "v"}, machine("m2"), given(labels{"k": "v"})),
			want: outcome{step: StepAdoptObject, remembers: labels{"k": "v"}, object: "b"},
		},
		"an isolation label is not restored, and the gate is lifted next": {
			policy: isolation, record: remembered("a", 10, tier, ofMachine("m1")), node: node("b", "20", nil, machine("m2"), gated),
			want: outcome{step: StepAdoptObject, remembers: tier, object: "b"},
		},
		"an isolation label is not restored to a machine that is not known either": {
			policy: isolation, record: remembered("a", 10, tier, ofMachine("m1"), later("b", 20)), node: node("b", "20", nil, gated),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"and not when that machine registers a second time": {
			policy: isolation, record: remembered("a", 10, tier, ofMachine("m1"), later("b", 20), notShown("node-restriction.kubernetes.io/tier")), node: node("c", "30", nil, machine("m2")),
			want: outcome{step: StepAdoptObject, remembers: tier, object: "c"},
		},
		"the machine that had the isolation label registers again: it gets it": {
			policy: isolation, record: remembered("a", 10, tier, ofMachine("m1"), later("b", 20), notShown("node-restriction.kubernetes.io/tier")), node: node("c", "30", nil, machine("m1"), gated),
			want: outcome{step: StepRestore, give: tier, lift: true},
		},
		"the policy quarantines: what was recorded is set aside": {
			policy: quarantine, record: old(), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: outcome{step: StepQuarantine, remembers: labels{"own": "x"}, object: "b", setAside: labels{"k": "v"}},
		},
		"quarantined, and that machine was deleted at once": {
			policy: quarantine, record: old(), node: node("b", "20", labels{"own": "x"}, machine("m2")), event: NodeDeleted,
			want: outcome{step: StepQuarantine, remembers: labels{"own": "x"}, object: "b", setAside: labels{"k": "v"}, deleted: true},
		},
		"quarantined: nothing is given, and the gate stays": {
			policy: quarantine, record: quarantined(), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: outcome{step: NoStep},
		},
		"quarantined: no rule is followed": {
			policy: quarantine + "\ntaints: {rules: [{selector: own, taint: \"own:NoSchedule\"}]}", record: quarantined(), node: node("b", "20", labels{"own": "x"}, machine("m2")),
			want: outcome{step: NoStep},
		},
		"quarantined: edits are recorded": {
			policy: quarantine, record: quarantined(), node: node("b", "21", labels{"own": "y"}, machine("m2"), gated),
			want: outcome{step: StepUpdateRecord, remembers: labels{"own": "y"}, object: "b", setAside: labels{"k": "v"}},
		},
		"quarantined, and the machine registers again: nothing is given, nothing is lost": {
			policy: quarantine, record: quarantined(), node: node("c", "30", labels{"more": "1"}, machine("m2"), gated),
			want: outcome{step: StepAdoptObject, remembers: labels{"own": "x", "more": "1"}, object: "c", setAside: labels{"k": "v"}},
		},
		"quarantined, and the machine of the record is back: it gets it": {
			policy: quarantine, record: quarantined(), node: node("c", "30", labels{}, machine("m1"), gated),
			want: outcome{step: StepReturnMachine, remembers: labels{"k": "v"}, object: "c"},
		},
		"quarantined, and the policy forgets now: the machine keeps its own": {
			policy: forget, record: quarantined(), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: outcome{step: StepEndQuarantine, remembers: labels{"own": "x"}, object: "b"},
		},
		"the policy forgets: another machine begins with nothing": {
			policy: forget, record: old(), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: outcome{step: StepNewMachine, remembers: labels{"own": "x"}, object: "b"},
		},
		"the policy forgets, and what a webhook that was behind gave is not recorded": {
			policy: forget, record: old(), node: node("b", "20", labels{"k": "v", "own": "x"}, machine("m2"), given(labels{"k": "v"})),
			want: outcome{step: StepNewMachine, remembers: labels{"own": "x"}, object: "b"},
		},
		"the policy forgets, and the machine before is back: it gets what it had": {
			policy: forget, record: begun(), node: node("c", "30", labels{}, machine("m1"), gated),
			want: outcome{step: StepReturnMachine, remembers: labels{"k": "v"}, object: "c"},
		},
		"and not what it had longer ago than retention": {
			policy: forget + "\nretention: 1h", record: begun(func(r *record.Record) { r.Earlier[0].DeletedAt = now.Add(-2 * time.Hour) }), node: node("c", "30", labels{}, machine("m1"), gated),
			want: outcome{step: StepNewMachine, object: "c"},
		},
		"the policy forgets, and the last state of a machine that nothing is recorded of is received late": {
			policy: forget, record: remembered("b", 20, labels{"own": "x"}, ofMachine("m2")), node: node("a", "12", labels{"k": "last"}, machine("m1")), event: NodeDeleted,
			want: outcome{step: StepUpdateRecord, remembers: labels{"own": "x"}, object: "b"},
		},
		"what a machine had longer ago than retention is no reason to write": {
			policy: forget + "\nretention: 1h", record: begun(func(r *record.Record) { r.Earlier[0].DeletedAt = now.Add(-2 * time.Hour) }), node: node("b", "20", labels{"own": "x"}, machine("m2")),
			want: outcome{step: NoStep},
		},
		"quarantined and deleted": {
			policy: quarantine, record: quarantined(), node: node("b", "21", labels{"own": "x"}, machine("m2")), event: NodeDeleted,
			want: outcome{step: StepMarkDeleted, remembers: labels{"own": "x"}, object: "b", setAside: labels{"k": "v"}, deleted: true},
		},
		"the last state of the machine before is received late: it is set aside too": {
			policy: quarantine, record: quarantined(func(r *record.Record) { r.Floor = 19 }), node: node("a", "12", labels{"k": "last"}, machine("m1")), event: NodeDeleted,
			want: outcome{step: StepUpdateRecord, remembers: labels{"own": "x"}, object: "b", setAside: labels{"k": "last"}},
		},
		"an operator accepts the new machine: the other side is forgotten": {
			policy: quarantine, accepted: store.NewMachine, record: quarantined(), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: outcome{step: StepApplyDecision, remembers: labels{"own": "x"}, object: "b"},
		},
		"an operator accepts the old side: it is this machine's now": {
			policy: quarantine, accepted: store.OldMachine, record: quarantined(), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: outcome{step: StepApplyDecision, remembers: labels{"k": "v"}, object: "b"},
		},
		"an operator accepts a side that does not exist: nothing": {
			policy: quarantine, accepted: "both", record: quarantined(), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: outcome{step: NoStep},
		},
	})
}

func TestARecordOfAnotherClusterKeepsItsValuesAndHidesNothing(t *testing.T) {
	check(t, map[string]decision{
		"its Node lacks everything: reset first": {
			cluster: "here", record: remembered("elsewhere", 999_999, labels{"k": "v"}, ofCluster("there")), node: node("b", "20", nil, gated),
			want: outcome{step: StepResetVersions, remembers: labels{"k": "v"}, object: "b"},
		},
		"the cluster is not known yet: nothing is reset": {
			record: remembered("a", 10, labels{"k": "v"}, ofCluster("there")), node: node("a", "11", labels{"k": "v"}),
			want: outcome{step: NoStep},
		},
		"a record that names no cluster is of this one": {
			cluster: "here", record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}),
			want: outcome{step: NoStep},
		},
		"a record that is ahead of its Node waits: the watch may be late": {
			cluster: "here", record: remembered("b", 999_999, labels{"k": "v"}, ofCluster("here")), node: node("b", "20", nil, gated),
			want: outcome{step: NoStep},
		},
	})
}

func TestTaintsFollowTheRules(t *testing.T) {
	const dedicated = `taints: {rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}]}`
	const (
		ci  = "dedicated=ci:NoSchedule"
		gpu = "dedicated=gpu:NoSchedule"
	)
	check(t, map[string]decision{
		"a label that a rule selects: recorded first": {
			policy: dedicated, record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v", "dedicated": "ci"}),
			want: outcome{step: StepUpdateRecord, remembers: labels{"k": "v", "dedicated": "ci"}, object: "a"},
		},
		"a label that a rule selects, recorded: the taint is added": {
			policy: dedicated, record: remembered("a", 11, labels{"dedicated": "ci"}), node: node("a", "11", labels{"dedicated": "ci"}),
			want: outcome{step: StepApplyRules, put: ci},
		},
		"the taint is there: nothing, and it is not recorded as a client's": {
			policy: dedicated, record: remembered("a", 11, labels{"dedicated": "ci"}), node: node("a", "12", labels{"dedicated": "ci"}, derived(ci)),
			want: outcome{step: NoStep},
		},
		"the label has another value, recorded: one taint replaces the other": {
			policy: dedicated, record: remembered("a", 13, labels{"dedicated": "gpu"}), node: node("a", "13", labels{"dedicated": "gpu"}, derived(ci)),
			want: outcome{step: StepApplyRules, put: gpu, take: ci},
		},
		"the label was removed: the taint is removed": {
			policy: dedicated, record: remembered("a", 13, labels{"k": "v"}), node: node("a", "13", labels{"k": "v"}, derived(ci)),
			want: outcome{step: StepApplyRules, take: ci},
		},
		"the rule was removed: its taint is removed": {
			record: remembered("a", 13, labels{"dedicated": "ci"}), node: node("a", "13", labels{"dedicated": "ci"}, derived(ci)),
			want: outcome{step: StepApplyRules, take: ci},
		},
		"a client removed the taint: it is added again": {
			policy: dedicated, record: remembered("a", 13, labels{"dedicated": "ci"}), node: node("a", "14", labels{"dedicated": "ci"}, annotated(policy.TaintsAnnotation, ci)),
			want: outcome{step: StepApplyRules, put: ci},
		},
		"a client removed the label and the taint: the annotation lists it no longer": {
			policy: dedicated, record: remembered("a", 14, labels{"k": "v"}), node: node("a", "14", labels{"k": "v"}, annotated(policy.TaintsAnnotation, ci)),
			want: outcome{step: StepApplyRules},
		},
		"a client's taint has the key and effect: reported, and recorded as the client's": {
			policy: dedicated, record: remembered("a", 11, labels{"dedicated": "ci"}), node: node("a", "12", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule")),
			want: outcome{step: StepUpdateRecord, remembers: labels{"dedicated": "ci", "dedicated:NoSchedule": "mine"}, object: "a"},
		},
		"it is recorded: only reported": {
			policy: dedicated, record: remembered("a", 12, labels{"dedicated": "ci", "dedicated:NoSchedule": "mine"}), node: node("a", "12", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule")),
			want: outcome{step: NoStep, taken: ci},
		},
		"a client's taint is what the rule wants: it stays the client's": {
			policy: dedicated, record: remembered("a", 12, labels{"dedicated": "ci", "dedicated:NoSchedule": "ci"}), node: node("a", "12", labels{"dedicated": "ci"}, tainted(ci)),
			want: outcome{step: NoStep, taken: ci},
		},
		"a client gave a derived taint another value: it is the client's": {
			policy: dedicated, record: remembered("a", 12, labels{"dedicated": "ci"}), node: node("a", "13", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule"), annotated(policy.TaintsAnnotation, ci)),
			want: outcome{step: StepUpdateRecord, remembers: labels{"dedicated": "ci", "dedicated:NoSchedule": "mine"}, object: "a"},
		},
		"a Node with nothing to record follows rules without a record": {
			policy: `taints: {rules: [{selector: "kubernetes.io/os=windows", taint: "os=windows:NoSchedule"}]}`, node: node("a", "10", labels{"kubernetes.io/os": "windows"}),
			want: outcome{step: StepApplyRules, put: "os=windows:NoSchedule"},
		},
		"waits for its finalizers: the rules do nothing any more": {
			policy: dedicated, record: remembered("a", 10, labels{"dedicated": "ci"}), node: node("a", "10", labels{"dedicated": "ci"}, deleting),
			want: outcome{step: NoStep},
		},
		"deleted: derived taints are not recorded": {
			policy: dedicated, record: remembered("a", 10, labels{"dedicated": "ci"}), node: node("a", "11", labels{"dedicated": "ci"}, derived(ci)), event: NodeDeleted,
			want: outcome{step: StepMarkDeleted, remembers: labels{"dedicated": "ci"}, object: "a", deleted: true},
		},
		"a new object with a taint that admission derived, whose label was removed since: the taint is removed": {
			policy: dedicated, record: remembered("b", 20, labels{"k": "v"}, removed(20, "dedicated")), node: node("b", "20", labels{"k": "v"}, given(labels{"k": "v", "dedicated": "ci"}), derived(ci)),
			want: outcome{step: StepApplyRules, take: ci},
		},
		"a new object brought the taint itself: it is its own, and recorded": {
			policy: dedicated, record: remembered("a", 10, labels{"dedicated": "ci"}), node: node("b", "20", labels{"dedicated": "ci"}, given(labels{"dedicated": "ci"}), tainted(ci)),
			want: outcome{step: StepAdoptObject, remembers: labels{"dedicated": "ci", "dedicated:NoSchedule": "ci"}, object: "b"},
		},
		"the annotation lists a recorded taint of a client, without guard policies: a kubelet can write that, so it stays": {
			unguarded: true, policy: dedicated, record: remembered("a", 10, labels{"dedicated:NoSchedule": "ci"}), node: node("a", "11", nil, derived(ci)),
			want: outcome{step: NoStep},
		},
		"the annotation lists a taint that no rule makes, without guard policies: it is recorded, and stays": {
			unguarded: true, policy: dedicated, record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}, derived("quarantine=x:NoExecute")),
			want: outcome{step: StepUpdateRecord, remembers: labels{"k": "v", "quarantine:NoExecute": "x"}, object: "a"},
		},
		"behind the gate: the rule's taint is added in the request that restores its label and lifts the gate": {
			policy: dedicated, record: remembered("a", 10, labels{"dedicated": "ci"}), node: node("b", "20", nil, gated),
			want: outcome{step: StepRestore, give: labels{"dedicated": "ci"}, put: ci, lift: true},
		},
		"behind the gate, the taint of a client from a stale record is removed: the rule's taint is added in the same request": {
			policy: dedicated, record: remembered("b", 20, labels{"dedicated": "ci"}, removed(20, "dedicated:NoSchedule")),
			node: node("b", "20", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule"), given(labels{"dedicated:NoSchedule": "mine"}), gated),
			want: outcome{step: StepRestore, remove: []string{"dedicated:NoSchedule"}, put: ci, lift: true},
		},
		"a label restored from a stale record is removed, and the rule's taint with it": {
			policy: dedicated, record: remembered("a", 10, labels{"k": "v"}, removed(10, "dedicated")), node: node("b", "20", labels{"k": "v", "dedicated": "ci"}, given(labels{"k": "v", "dedicated": "ci"}), derived(ci)),
			want: outcome{step: StepRestore, remove: []string{"dedicated"}, take: ci},
		},
		"the API server refuses a label: the gate stays, and the rules hold all the same": {
			policy: dedicated, record: remembered("b", 20, labels{"dedicated": "ci"}, func(r *record.Record) {
				r.Entries = append(r.Entries, record.Entry{Key: "k", Value: "v", Version: 5})
				r.Seen = []record.Object{{UID: "a", Version: 6}, {UID: "b", Version: 20}}
			}),
			node: node("b", "20", labels{"dedicated": "ci"}, gated), refused: []string{"k"},
			want: outcome{step: StepApplyRules, put: ci},
		},
	})
}

func TestRegistrationTaintsAreAddedOnce(t *testing.T) {
	const register = `taints: {register: [{taint: "example.com/unverified=true:NoSchedule"}, {taint: "gpu/unverified:NoExecute", nodeSelector: gpu=yes}]}`
	const unverified = "example.com/unverified=true:NoSchedule"
	check(t, map[string]decision{
		"behind the gate without the annotation, with nothing to restore: added in the request that lifts the gate": {
			policy: register, node: node("a", "10", nil, gated),
			want: outcome{step: StepRestore, register: unverified, lift: true},
		},
		"a profile that only reports adds none": {
			policy: "verify: {profiles: [{name: a, mode: report, checks: [{name: api, api: {}}]}]}", node: node("a", "10", nil, gated),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"a restored label selects one: both": {
			policy: register, record: remembered("a", 10, labels{"gpu": "yes"}), node: node("b", "20", nil, gated),
			want: outcome{step: StepRestore, give: labels{"gpu": "yes"}, register: unverified + ",gpu/unverified:NoExecute", lift: true},
		},
		"with the annotation: admission has added them, and the client that removed them had a reason": {
			policy: register, node: node("a", "10", nil, gated, stamped(record.Stamp{})),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"an annotation that only a webhook can have written counts without guard policies": {
			unguarded: true, policy: register, node: node("a", "10", nil, gated, stamped(record.Stamp{})),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"an annotation under another field manager does not count without guard policies": {
			unguarded: true, policy: register, node: node("a", "10", nil, gated, stamped(record.Stamp{}), func(n *corev1.Node) {
				n.ManagedFields = []metav1.ManagedFieldsEntry{{
					Manager: observe.FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + policy.StampAnnotation + `":{}}}}`),
				}}
			}),
			want: outcome{step: StepRestore, register: unverified, lift: true},
		},
		"not gated: an old Node is left alone": {
			policy: register, record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}),
			want: outcome{step: NoStep},
		},
		"they are not recorded": {
			policy: register, node: node("a", "10", labels{"k": "v"}, tainted("example.com/unverified=false:NoSchedule")),
			want: outcome{step: StepCreateRecord, remembers: labels{"k": "v"}, object: "a"},
		},
		"the Node has a taint of that key and effect: its own counts": {
			policy: register, node: node("a", "10", nil, gated, tainted("example.com/unverified=mine:NoSchedule")),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"without room for the annotation: added as the gate is lifted, so once all the same": {
			policy: register, node: node("a", "10", nil, gated, withoutRoom),
			want: outcome{step: StepRestore, register: unverified, lift: true},
		},
		"without room for the annotation, and the gate stays: not yet": {
			policy: register, record: remembered("a", 10, labels{"k": "v"}, later("b", 20)), node: node("b", "20", nil, gated, withoutRoom), refused: []string{"k"},
			want: outcome{step: NoStep},
		},
	})
}

// boots says that the Node runs a boot, and that its stamp names that one or another.
func boots(id, noted string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.NodeInfo.BootID = id
		stamped(record.Stamp{Boot: noted})(n)
	}
}

func TestARegistrationTaintIsAddedAgainAfterAReboot(t *testing.T) {
	const (
		register = `taints: {register: [{taint: "example.com/unverified=true:NoSchedule", onReboot: true}, {taint: "gpu/unverified:NoSchedule", nodeSelector: gpu=yes, onReboot: true}, {taint: "once:NoSchedule"}]}`
		once     = `taints: {register: [{taint: "once:NoSchedule"}]}`
		again    = "example.com/unverified=true:NoSchedule"
	)
	plain := remembered("a", 10, labels{"k": "v"})
	check(t, map[string]decision{
		"the boot that the stamp names, as after a restart of the kubelet": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("1", "1")),
			want: outcome{step: NoStep},
		},
		"another boot": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("2", "1")),
			want: outcome{step: StepRestore, register: again, boot: "2"},
		},
		"another boot, and its labels select more by now": {
			policy: register, record: remembered("a", 10, labels{"gpu": "yes"}), node: node("a", "11", labels{"gpu": "yes"}, boots("2", "1")),
			want: outcome{step: StepRestore, register: again + ",gpu/unverified:NoSchedule", boot: "2"},
		},
		"another boot, with a taint of that key and effect": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("2", "1"), tainted("example.com/unverified=mine:NoSchedule")),
			want: outcome{step: StepNoteBoot, boot: "2"},
		},
		"a boot that is not known is none": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("", "1")),
			want: outcome{step: NoStep},
		},
		"a boot ID that is too long is not known": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots(strings.Repeat("2", 65), "1")),
			want: outcome{step: NoStep},
		},
		"the first boot that is known, as with a new policy: only noted": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("1", "")),
			want: outcome{step: StepNoteBoot, boot: "1"},
		},
		"the same on a Node without a stamp": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, func(n *corev1.Node) { n.Status.NodeInfo.BootID = "1" }),
			want: outcome{step: StepNoteBoot, boot: "1"},
		},
		"a policy that never asked for it notes nothing": {
			policy: once, record: plain, node: node("a", "11", labels{"k": "v"}, boots("1", "")),
			want: outcome{step: NoStep},
		},
		"a policy that does not ask for it any more keeps the stamp current: asked again, it taints no Node for what was": {
			policy: once, record: plain, node: node("a", "11", labels{"k": "v"}, boots("2", "1")),
			want: outcome{step: StepNoteBoot, boot: "2"},
		},
		"behind the gate, after its registration": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("2", "1"), gated),
			want: outcome{step: StepRestore, register: again, boot: "2", lift: true},
		},
		"behind the gate, which a refused label keeps on": {
			policy: register, record: remembered("a", 10, labels{"k": "v"}, later("b", 20)), node: node("b", "20", nil, boots("2", "1"), gated), refused: []string{"k"},
			want: outcome{step: StepRestore, register: again, boot: "2"},
		},
		"behind the gate, and not registered yet: all taints of a registration, once": {
			policy: register, node: node("a", "10", nil, gated, func(n *corev1.Node) { n.Status.NodeInfo.BootID = "1" }),
			want: outcome{step: StepRestore, register: again + ",once:NoSchedule", lift: true},
		},
		"behind the gate, and its registration waits for a refused label": {
			policy: register, record: remembered("a", 10, labels{"k": "v"}, later("b", 20)), node: node("b", "20", nil, gated, func(n *corev1.Node) { n.Status.NodeInfo.BootID = "1" }), refused: []string{"k"},
			want: outcome{step: NoStep},
		},
		"with an item that is missing: in one request": {
			policy: register, record: remembered("a", 10, labels{"k": "v"}, later("b", 20)), node: node("b", "20", nil, boots("2", "1")),
			want: outcome{step: StepRestore, give: labels{"k": "v"}, register: again, boot: "2"},
		},
		"without room for the annotation: not added, or it would be added again and again": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("2", "1"), withoutRoom),
			want: outcome{step: NoStep},
		},
		"an annotation that a kubelet may have written counts as none without guard policies": {
			unguarded: true, policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("2", "1"), func(n *corev1.Node) {
				n.ManagedFields = []metav1.ManagedFieldsEntry{{
					Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + policy.StampAnnotation + `":{}}}}`),
				}}
			}),
			want: outcome{step: StepNoteBoot, boot: "2"},
		},
		"of another machine, quarantined: nothing before an operator decides": {
			policy: "machine: {onMismatch: quarantine}\n" + register, record: remembered("a", 10, labels{"k": "v"}, ofMachine("m1"), func(r *record.Record) {
				r.Quarantined = &record.Record{Node: "n1", Machine: record.Machine{SystemUUID: "m0"}, Entries: []record.Entry{{Key: "q", Value: "1"}}}
			}), node: node("a", "11", labels{"k": "v"}, machine("m1"), boots("2", "1")),
			want: outcome{step: NoStep},
		},
		"a Node that is being deleted": {
			policy: register, record: plain, node: node("a", "11", labels{"k": "v"}, boots("2", "1"), deleting),
			want: outcome{step: NoStep},
		},
	})
	t.Run("in an emergency the boot is noted, and no taint follows, nor at its end", func(t *testing.T) {
		decides := func(noted string, emergency bool) outcome {
			inputs := plan.Inputs{Policy: loadPolicy(t, register).WithEmergency(emergency), GuardInForce: true, Now: now}
			return outcomeOf(Decide(store.Entry{Record: *plain}, true, observe.FromNode(node("a", "11", labels{"k": "v"}, boots("2", noted))), NodePresent, inputs))
		}
		assert.Equal(t, outcome{step: StepNoteBoot, boot: "2"}, decides("1", true))
		assert.Equal(t, outcome{step: NoStep}, decides("2", false))
	})
	t.Run("a boot that waits keeps nothing else waiting", func(t *testing.T) {
		inputs := plan.Inputs{Policy: loadPolicy(t, register), GuardInForce: true, BootWaits: true, Now: now}
		got := Decide(store.Entry{Record: *plain}, true, observe.FromNode(node("a", "11", labels{"k": "v"}, boots("2", "1"), gated)), NodePresent, inputs)
		assert.Equal(t, outcome{step: StepLiftGate, lift: true}, outcomeOf(got))
	})
}

// A capture that is down or slow, a tool that removes the taint, other clients and policies that come and go, in any order: the taint is added once for each
// boot that the stamp did not name, and a model of what that means agrees after every step.
func TestRebootsInAnyOrderAgreeWithAModel(t *testing.T) {
	const taint = "checked:NoSchedule"
	asks, asksSome, asksNot := loadPolicy(t, `taints: {register: [{taint: "checked:NoSchedule", onReboot: true}]}`),
		loadPolicy(t, `taints: {register: [{taint: "checked:NoSchedule", nodeSelector: gpu, onReboot: true}]}`), loadPolicy(t, `taints: {register: [{taint: "checked:NoSchedule"}]}`)
	policies := []policy.Policy{asks, asks, asksSome, asksNot, asks.WithEmergency(true)}
	added := 0
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 1))
		object, inForce, version, boot := node("a", "1", labels{"k": "v"}), asks, 1, 1
		object.Status.NodeInfo.BootID = "1"
		noted, shown := "", false // the model: the boot that is known, and whether the Node has the taint
		for step := range 120 {
			version++
			object.ResourceVersion = strconv.Itoa(version)
			switch draw.IntN(16) {
			case 0:
				boot++
				object.Status.NodeInfo.BootID = strconv.Itoa(boot)
			case 1:
				object.Status.NodeInfo.BootID = "" // a kubelet that does not say it for a while
			case 2:
				object.Status.NodeInfo.BootID = strconv.Itoa(boot)
			case 3:
				object.Spec.Taints, shown = nil, false
			case 4:
				delete(object.Annotations, policy.StampAnnotation)
				noted = ""
			case 5:
				inForce = policies[draw.IntN(len(policies))]
			case 6:
				if _, gpu := object.Labels["gpu"]; gpu {
					delete(object.Labels, "gpu")
				} else {
					object.Labels["gpu"] = "yes"
				}
			default: // capture, until it has nothing to do
				current := remembered("a", record.Version(version), object.Labels)
				for writes := 0; ; writes++ {
					require.Less(t, writes, 2, "seed %d, step %d: one PATCH settles it", seed, step)
					n := observe.CompactNodeOf(observe.FromNode(object)).Node()
					action := Decide(store.Entry{Record: *current}, true, n, NodePresent, plan.Inputs{Policy: inForce, GuardInForce: true, Now: now})
					require.Nil(t, action.Record, "seed %d, step %d", seed, step)
					if action.Step == NoStep {
						break
					}
					object = patched(t, object, patchOf(t, n, action.Plan))
				}
				id := object.Status.NodeInfo.BootID
				rebooted := id != "" && noted != "" && id != noted
				_, gpu := object.Labels["gpu"]
				if rebooted && !inForce.InEmergency() && !shown && (len(inForce.RebootTaints(nil)) > 0 || gpu && inForce.NotesBoots()) {
					shown = true
					added++
				}
				if id != "" && (noted != "" || inForce.NotesBoots()) {
					noted = id
				}
			}
			require.Equal(t, shown, slices.ContainsFunc(object.Spec.Taints, func(held corev1.Taint) bool { return held.ToString() == taint }), "seed %d, step %d", seed, step)
			stamp, _ := record.ParseStamp(object.Annotations[policy.StampAnnotation])
			require.Equal(t, noted, stamp.Boot, "seed %d, step %d", seed, step)
		}
	}
	assert.Greater(t, added, 300, "the test is about taints that are added again")
}

// patched returns the Node after a merge patch.
func patched(t *testing.T, prev *corev1.Node, patch string) *corev1.Node {
	t.Helper()
	before, err := json.Marshal(prev)
	require.NoError(t, err)
	after, err := jsonpatch.MergePatch(before, []byte(patch))
	require.NoError(t, err)
	var updated corev1.Node
	require.NoError(t, json.Unmarshal(after, &updated))
	if updated.Labels == nil {
		updated.Labels = labels{}
	}
	return &updated
}

func TestATaintOfVerificationIsAddedWithTheGateLiftedAndNeverAgain(t *testing.T) {
	const profiles = `verify: {label: example.com/ok, profiles: [{name: gpu, nodeSelector: gpu=yes, taint: "example.com/new:NoExecute", checks: [{name: a, api: {}}]}, {name: rest, checks: [{name: a, api: {}}]}]}`
	const byDefault = "nodekeep.dev/unverified:NoSchedule"
	check(t, map[string]decision{
		"the webhook was down: in the request that lifts the gate": {
			policy: profiles, node: node("a", "10", nil, gated),
			want: outcome{step: StepRestore, register: byDefault, lift: true},
		},
		"a label that capture restores selects the profile": {
			policy: profiles, record: remembered("a", 10, labels{"gpu": "yes"}), node: node("b", "20", nil, gated),
			want: outcome{step: StepRestore, give: labels{"gpu": "yes"}, register: "example.com/new:NoExecute", lift: true},
		},
		"the webhook has added it, and verification was faster than the gate": {
			policy: profiles, node: node("a", "10", labels{"example.com/ok": "true"}, gated, stamped(record.Stamp{})),
			want: outcome{step: StepLiftGate, lift: true},
		},
		"a verified Node whose labels select another profile now": {
			policy: profiles, record: remembered("a", 10, labels{"gpu": "no"}), node: node("a", "11", labels{"gpu": "yes", "example.com/ok": "true"}, stamped(record.Stamp{})),
			want: outcome{step: StepUpdateRecord, remembers: labels{"gpu": "yes"}, object: "a"},
		},
		"a Node from before the profiles": {
			policy: profiles, record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}),
			want: outcome{step: NoStep},
		},
		"neither label nor taint is recorded, whatever the effect": {
			policy: profiles, node: node("a", "10", labels{"k": "v", "example.com/ok": "true", "nodekeep.dev/verified": "true"}, tainted(byDefault, "example.com/new:NoSchedule")),
			want: outcome{step: StepCreateRecord, remembers: labels{"k": "v"}, object: "a"},
		},
		"what was recorded before the policy named the keys is not restored": {
			policy: profiles, record: remembered("a", 10, labels{"example.com/ok": "true", "example.com/new:NoExecute": ""}, later("b", 20)), node: node("b", "20", nil, gated, stamped(record.Stamp{})),
			want: outcome{step: StepLiftGate, lift: true},
		},
	})
}

func TestANodeOfWhichTheAPIServerSaysThatThereIsNone(t *testing.T) {
	quarantined := remembered("b", 20, labels{"own": "x"}, goneSince(earlier), quarantining(remembered("a", 10, labels{"k": "v"})))
	for name, c := range map[string]struct {
		record   *record.Record
		accepted store.Side
		want     outcome
	}{
		"its record says so from now on, and nothing else changes": {remembered("a", 10, labels{"k": "v"}), "", outcome{step: StepMarkDeleted, remembers: labels{"k": "v"}, object: "a", deleted: true}},
		"its record says so":                      {remembered("a", 10, labels{"k": "v"}, goneSince(earlier)), "", outcome{step: NoStep}},
		"an operator accepts the old side":        {quarantined, store.OldMachine, outcome{step: StepApplyDecision, remembers: labels{"k": "v"}, object: "b", deleted: true}},
		"nobody has accepted a side, and it went": {quarantined, "", outcome{step: NoStep}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, outcomeOf(DecideAbsent(store.Entry{Record: *c.record, AcceptedSide: c.accepted}, true, plan.Inputs{Now: now})))
		})
	}
}

func TestAClockThatIsOffChangesNothingButWhatIsWrittenAsTheTimeOfADeletionOrAChange(t *testing.T) {
	for name, d := range map[string]decision{
		"first observed":                       {node: node("a", "5", labels{"a": "1"})},
		"changed":                              {record: remembered("a", 5, labels{"a": "1"}), node: node("a", "6", labels{"a": "2"})},
		"deleted":                              {record: remembered("a", 5, labels{"a": "1"}), node: node("a", "6", labels{"a": "2"}), event: NodeDeleted},
		"deleted, by a clock that was ahead":   {record: remembered("a", 5, labels{"a": "1"}, goneSince(now.Add(time.Hour))), node: node("a", "6", labels{"a": "1"}), event: NodeDeleted},
		"registered, after a clock was ahead":  {record: remembered("a", 5, labels{"a": "1"}, goneSince(now.Add(time.Hour))), node: node("b", "7", labels{"a": "1"})},
		"registered without labels":            {record: remembered("a", 5, labels{"a": "1"}, goneSince(now.Add(-time.Hour))), node: node("b", "7", nil, gated)},
		"another machine, and it was deleted":  {policy: "machine: {onMismatch: quarantine}", record: remembered("a", 5, labels{"a": "1"}, ofMachine("m1")), node: node("b", "7", nil, machine("m2")), event: NodeDeleted},
		"a record of another cluster is reset": {cluster: "here", record: remembered("a", 5, labels{"a": "1"}, ofCluster("there")), node: node("b", "7", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			right := outcomeOf(d.decide(t, now))
			for _, skew := range []time.Duration{time.Hour, -time.Hour} {
				assert.Equal(t, right, outcomeOf(d.decide(t, now.Add(skew))))
			}
		})
	}
}

func TestAPatchOfTaintsLeavesTheOthersAsTheyAre(t *testing.T) {
	added := metav1.Now().Rfc3339Copy()
	n := node("a", "10", nil, gated, tainted("mine=1:NoExecute"), derived("ours=1:NoSchedule"), tainted("stale:NoSchedule", "wrong=1:NoSchedule"))
	n.Spec.Taints[1].TimeAdded = &added
	body := patchOf(t, observe.FromNode(n), plan.Plan{Edits: slices.Concat(plan.LiftGate(gate), plan.TaintEdits(plan.CauseDerivedTaint, true, taints("ours=1:NoSchedule")...), plan.RemoveItems(plan.CauseCorrection, "stale:NoSchedule", "label"), plan.SetItems(plan.CauseCorrection, labels{"wrong:NoSchedule": "2", "other": "x"}), plan.SetItems(plan.CauseRecord, labels{"maintenance:NoExecute": "disk", "k": "v"}), plan.TaintEdits(plan.CauseDerivedTaint, false, taints("ours=2:NoSchedule", "mine=2:NoExecute")...), plan.TaintEdits(plan.CauseRegistrationTaint, false, taints("check:NoSchedule")...)), DerivedTaints: taints("ours=2:NoSchedule"), StampBefore: record.Stamp{}.Merge(labels{"label": "x", "old": "1"}, record.Record{}, 0)})
	condition, err := json.Marshal(added)
	require.NoError(t, err)
	next := record.Stamp{TaintsBehindGate: []string{"mine:NoExecute", "ours:NoSchedule", "stale:NoSchedule", "wrong:NoSchedule"}}.Merge(labels{"old": "1"}, record.Record{}, 0).Merge(labels{"wrong:NoSchedule": "2", "other": "x", "maintenance:NoExecute": "disk", "k": "v"}, record.Record{}, 10)
	stamp, err := json.Marshal(next.String())
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"metadata": {"uid": "a", "resourceVersion": "10", "labels": {"k": "v", "label": null, "other": "x"},
			"annotations": {"nodekeep.dev/taints": "ours=2:NoSchedule", "nodekeep.dev/restored": `+string(stamp)+`}},
		"spec": {"taints": [
			{"key": "mine", "value": "1", "effect": "NoExecute", "timeAdded": `+string(condition)+`},
			{"key": "wrong", "value": "2", "effect": "NoSchedule"},
			{"key": "maintenance", "value": "disk", "effect": "NoExecute"},
			{"key": "ours", "value": "2", "effect": "NoSchedule"},
			{"key": "check", "effect": "NoSchedule"}
		]}}`, body)
}

func TestAPatchWritesOnlyTheAnnotationsThatItChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change plan.Plan
		node   *corev1.Node
		want   []string
	}{
		"the gate is lifted":                        {plan.Plan{Edits: plan.LiftGate(gate)}, node("a", "10", nil, gated), []string{policy.StampAnnotation}},
		"a label is restored":                       {plan.Plan{Edits: plan.SetItems(plan.CauseRecord, labels{"k": "v"})}, node("a", "10", nil), []string{policy.StampAnnotation}},
		"a label is removed":                        {plan.Plan{Edits: plan.RemoveItems(plan.CauseCorrection, "k")}, node("a", "10", labels{"k": "v"}), []string{policy.StampAnnotation}},
		"registration taints are added":             {plan.Plan{Edits: plan.TaintEdits(plan.CauseRegistrationTaint, false, taints("x:NoSchedule")...)}, node("a", "10", nil, gated), []string{policy.StampAnnotation}},
		"a rule's taint is added":                   {plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, taints("x:NoSchedule")...), DerivedTaints: taints("x:NoSchedule")}, node("a", "10", nil), []string{policy.TaintsAnnotation}},
		"a rule's taint is removed":                 {plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, true, taints("x:NoSchedule")...)}, node("a", "10", nil, derived("x:NoSchedule")), []string{policy.TaintsAnnotation}},
		"a label is restored, and there is no room": {plan.Plan{Edits: plan.SetItems(plan.CauseRecord, labels{"k": "v"})}, node("a", "10", nil, withoutRoom), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var patch nodePatch
			require.NoError(t, json.Unmarshal([]byte(patchOf(t, observe.FromNode(c.node), c.change)), &patch))
			assert.ElementsMatch(t, c.want, slices.Collect(maps.Keys(patch.Metadata.Annotations)))
		})
	}
}

// Without the guard policies a kubelet can write that nodekeep set what a client has set.
func TestAKubeletThatClaimsAClientsTaintForNodekeepHidesItFromNoRecord(t *testing.T) {
	claim := func(value string) func(*corev1.Node) {
		return stamped(record.Stamp{}.Merge(labels{"maintenance:NoExecute": value}, record.Record{}, 15))
	}
	check(t, map[string]decision{
		"a taint that was never recorded": {
			unguarded: true, record: remembered("a", 10, labels{"k": "v"}), node: node("a", "20", labels{"k": "v", "maintenance:NoExecute": "disk"}, claim("disk")),
			want: outcome{step: StepUpdateRecord, remembers: labels{"k": "v", "maintenance:NoExecute": "disk"}, object: "a"},
		},
		"a recorded taint, by a version that is newer than the record": {
			unguarded: true, record: remembered("a", 10, labels{"maintenance:NoExecute": "disk"}), node: node("a", "20", labels{"maintenance:NoExecute": "disk"}, claim("disk")),
			want: outcome{step: StepUpdateRecord, remembers: labels{"maintenance:NoExecute": "disk"}, object: "a"},
		},
	})
}

func TestWhatAPatchSends(t *testing.T) {
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	follows := tainted("node.kubernetes.io/unschedulable:NoSchedule") // the node lifecycle controller adds and removes it
	for name, c := range map[string]struct {
		change         plan.Plan
		node           *corev1.Node
		metadata, spec string
	}{
		"the gate is lifted: every copy of it goes": {
			change: plan.Plan{Edits: plan.LiftGate(gate), ByClient: true}, node: node("a", "10", nil, gated, tainted("nodekeep.dev/restoring=x:NoExecute")), spec: `{"taints":null}`,
		},
		"a cordon is restored: the field": {change: plan.Plan{Edits: plan.SetItems(plan.CauseRecord, labels{policy.Cordon: ""}), ByClient: true}, node: node("a", "10", nil), spec: `{"unschedulable":true}`},
		"a cordon is restored, with a taint": {
			change: plan.Plan{Edits: plan.SetItems(plan.CauseRecord, labels{policy.Cordon: "", "t:NoSchedule": ""}), ByClient: true}, node: node("a", "10", nil),
			spec: `{"unschedulable":true,"taints":[{"key":"t","effect":"NoSchedule"}]}`,
		},
		"a cordon is removed, and the taint follows": {
			change: plan.Plan{Edits: plan.RemoveItems(plan.CauseCorrection, policy.Cordon), ByClient: true}, node: node("a", "10", nil, cordoned, follows), spec: `{"unschedulable":null}`,
		},
		"another item is removed: the cordon stays": {
			change: plan.Plan{Edits: plan.RemoveItems(plan.CauseCorrection, "t:NoSchedule"), ByClient: true}, node: node("a", "10", nil, cordoned, tainted("t:NoSchedule")), spec: `{"taints":null}`,
		},
		// Were it listed, the record would take an operator's rollback for nodekeep's own change, and capture would undo it.
		"an operator's command: the stamp does not list it": {
			change:   plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"a": "1"}), plan.SetItems(plan.CauseCorrection, labels{"b": "2", "t:NoSchedule": "new"}), plan.RemoveItems(plan.CauseCorrection, "c")), ByClient: true, StampBefore: record.Stamp{}.Merge(labels{"c": "1"}, record.Record{}, 3)},
			node:     node("a", "10", labels{"b": "1", "c": "1", "t:NoSchedule": "old"}),
			metadata: `,"labels":{"a":"1","b":"2","c":null}`, spec: `{"taints":[{"key":"t","value":"new","effect":"NoSchedule"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			prev := c.node.DeepCopy()
			assert.JSONEq(t, `{"metadata":{"uid":"a","resourceVersion":"10"`+c.metadata+`},"spec":`+c.spec+`}`, patchOf(t, observe.FromNode(c.node), c.change))
			assert.Equal(t, prev, c.node, "what was read is left as it is")
		})
	}
}
