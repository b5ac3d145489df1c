package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

const followDedicated = `taints: {rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}]}`

func TestWhatIsWrittenForANode(t *testing.T) {
	for name, c := range map[string]struct {
		policy    string
		record    *record.Record
		node      *corev1.Node
		writes    []string
		events    []string
		remembers labels
		object    types.UID
		shows     labels
	}{
		"without a record": {
			node: node("a", "10", labels{"k": "v"}), writes: []string{"put n1"}, remembers: labels{"k": "v"}, object: "a", shows: labels{"k": "v"},
		},
		"as it was recorded": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}), remembers: labels{"k": "v"}, object: "a", shows: labels{"k": "v"},
		},
		"behind the gate, with nothing to restore": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}, gated), writes: []string{"patch n1"}, events: []string{GateLifted},
			remembers: labels{"k": "v"}, object: "a", shows: labels{"k": "v"},
		},
		"changed": {
			record: remembered("a", 10, labels{"k": "v"}), node: node("a", "11", labels{"k": "w"}), writes: []string{"put n1"},
			remembers: labels{"k": "w"}, object: "a", shows: labels{"k": "w"},
		},
		"restored by the webhook": {
			record: remembered("a", 10, labels{"k": "v"}, goneSince(earlier)), node: node("b", "20", labels{"k": "v"}, given(labels{"k": "v"})), writes: []string{"put n1"}, events: []string{LabelsRestored},
			remembers: labels{"k": "v"}, object: "b", shows: labels{"k": "v"},
		},
		"registered without the webhook": {
			record: remembered("a", 10, labels{"k": "v", worker: ""}, goneSince(earlier)), node: node("b", "20", nil, gated), writes: []string{"patch n1", "put n1"}, events: []string{LabelsRestored, GateLifted},
			remembers: labels{"k": "v", worker: ""}, object: "b", shows: labels{"k": "v", worker: ""},
		},
		"restored from a stale record": {
			record: remembered("a", 10, labels{"k": "new"}, removed(10, "old")), node: node("b", "20", labels{"k": "stale", "old": "x"}, given(labels{"k": "stale", "old": "x"}), gated),
			writes: []string{"patch n1", "put n1"}, events: []string{LabelsRestored, GateLifted},
			remembers: labels{"k": "new"}, object: "b", shows: labels{"k": "new"},
		},
		"with a label that a rule selects": {
			policy: followDedicated, record: remembered("a", 10, nil), node: node("a", "11", labels{"dedicated": "ci"}), writes: []string{"put n1", "patch n1"}, events: []string{RulesApplied},
			remembers: labels{"dedicated": "ci"}, object: "a", shows: labels{"dedicated": "ci", "dedicated:NoSchedule": "ci"},
		},
		"without the label that its taint was derived from": {
			policy: followDedicated, record: remembered("a", 10, labels{"dedicated": "ci"}), node: node("a", "11", nil, derived("dedicated=ci:NoSchedule")), writes: []string{"put n1", "patch n1"}, events: []string{RulesApplied},
			object: "a",
		},
		"with a list of derived taints that were removed": {
			policy: followDedicated, record: remembered("a", 11, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}, annotated(policy.TaintsAnnotation, "dedicated=ci:NoSchedule")), writes: []string{"patch n1"},
			remembers: labels{"k": "v"}, object: "a", shows: labels{"k": "v"},
		},
		"with registration taints": {
			policy: "taints: {register: [{taint: \"unverified:NoSchedule\"}]}", node: node("a", "10", nil, gated), writes: []string{"patch n1"}, events: []string{RulesApplied, GateLifted},
			shows: labels{"unverified:NoSchedule": ""},
		},
		"that has rebooted": {
			policy: "taints: {register: [{taint: \"unverified:NoSchedule\", onReboot: true}]}", record: remembered("a", 11, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}, boots("2", "1")), writes: []string{"patch n1"}, events: []string{RulesApplied},
			remembers: labels{"k": "v"}, object: "a", shows: labels{"k": "v", "unverified:NoSchedule": ""},
		},
		"whose boot is seen first": {
			policy: "taints: {register: [{taint: \"unverified:NoSchedule\", onReboot: true}]}", record: remembered("a", 11, labels{"k": "v"}), node: node("a", "11", labels{"k": "v"}, boots("1", "")), writes: []string{"patch n1"},
			remembers: labels{"k": "v"}, object: "a", shows: labels{"k": "v"},
		},
		"of another machine, quarantined": {
			policy: "machine: {onMismatch: quarantine}", record: remembered("a", 10, labels{"k": "v"}, ofMachine("m1")), node: node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			writes: []string{"put n1"}, events: []string{MachineMismatch},
			remembers: labels{"own": "x"}, object: "b", shows: labels{"own": "x", "nodekeep.dev/restoring:NoSchedule": ""},
		},
		"with a record of another cluster": {
			record: remembered("elsewhere", 999_999, labels{"k": "v"}, ofCluster("there")), node: node("b", "20", nil, gated), writes: []string{"put n1", "patch n1"}, events: []string{RecordReset, LabelsRestored, GateLifted},
			remembers: labels{"k": "v"}, object: "b", shows: labels{"k": "v"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, c.policy)
			if c.record != nil {
				w.holds(c.record)
			}
			w.register(c.node)
			r := w.leader(func(o *Options) { o.ClusterUID = func() string { return "here" } })
			require.Empty(t, r.works())
			assert.Equal(t, c.writes, r.wrote())
			assert.Equal(t, c.events, r.reported())
			assert.Equal(t, orNoLabels(c.shows), w.shows())
			if c.object != "" {
				assert.Equal(t, orNoLabels(c.remembers), w.record().Items())
				assert.Equal(t, c.object, w.record().Newest().UID)
			}

			r.rests()
		})
	}
}

func orNoLabels(items labels) labels {
	if items == nil {
		return labels{}
	}
	return items
}

func TestAnAcceptedSideIsCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		policy  string
		record  *record.Record
		node    *corev1.Node
		waits   labels // until an operator decides
		old, by labels // what the Node shows if the old machine is accepted, or the new one
	}{
		"of two machines of one name": {
			"machine: {onMismatch: quarantine}", remembered("a", 10, labels{"k": "v"}, ofMachine("m1")), node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			labels{"own": "x"}, labels{"own": "x", "k": "v"}, labels{"own": "x"},
		},
		"of what a machine had under another name": {
			follows, recordOf("old", labels{"disk": "fast", worker: ""}), node("a", "20", nil, gated, machine(machineA)),
			labels{"disk": "fast"}, labels{"disk": "fast", worker: ""}, labels{"disk": "fast"},
		},
	} {
		for side, want := range map[store.Side]labels{store.OldMachine: c.old, store.NewMachine: c.by} {
			t.Run(name+", "+string(side), func(t *testing.T) {
				w := newCluster(t, c.policy, c.record, c.node.DeepCopy())
				r := w.leads()
				w.passes(365 * 24 * time.Hour) // no time accepts it
				r.enqueueAll()
				require.Empty(t, r.works())
				waits := maps.Clone(c.waits)
				waits[gate.Taint().Key+":NoSchedule"] = ""
				require.Equal(t, waits, w.shows())

				r.sees = func(_ string, _ bool, entry *store.Entry, err error) error {
					entry.AcceptedSide = side
					return err
				}
				r.reconciles()
				assert.Equal(t, want, w.shows(), "the gate is lifted")
				assert.Equal(t, want, w.record().Items())
				assert.Equal(t, c.record.Node != "n1", w.record().Followed == c.record.Node)
			})
		}
	}
}

func TestTheRecordOfADeletedNodeSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		deaf   bool
		items  labels
		taints []corev1.Taint
		want   labels
	}{
		"with its last state":                          {items: labels{"k": "v", "last": "1"}, want: labels{"k": "v", "last": "1"}},
		"with its last taints":                         {taints: []corev1.Taint{{Key: "tenant", Value: "blue", Effect: corev1.TaintEffectNoSchedule}}, want: labels{"tenant:NoSchedule": "blue"}},
		"where the watch brought nothing, after a 404": {deaf: true, items: labels{"k": "v", "last": "1"}, want: labels{"k": "v"}},
		"also where nothing is left to remember":       {items: nil, want: labels{}},
		"also where it was deleted as it was recorded": {items: labels{"k": "v"}, want: labels{"k": "v"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", node("a", "10", labels{"k": "v"}))
			first := w.leads()
			first.deaf = c.deaf
			w.edit(func(n *corev1.Node) { n.Labels, n.Spec.Taints = c.items, c.taints })
			w.delete()
			r := first
			if c.deaf {
				r = w.leader()
			}
			require.Empty(t, r.works())
			assert.Equal(t, c.want, w.record().Items())
			assert.Equal(t, truncateToSecond(now), w.record().DeletedAt)
			assert.False(t, r.Tracks("n1"), "nothing is left to do")
		})
	}
}

func TestANodeThatOnlyTheCacheLacksIsNotTakenForDeleted(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}))
	r := w.leader()
	r.deaf = true
	w.register(node("a", "10", labels{"k": "v"}))
	require.Empty(t, r.works())
	assert.Empty(t, r.wrote())
	assert.True(t, w.record().DeletedAt.IsZero())
}

// A new list shows neither the object nor its end if both fall between two watches.
func TestANodeThatIsDeletedBeforeTheWatchHasBroughtItIsMarkedAsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}))
		r := w.leader(func(o *Options) { o.Now = time.Now })
		r.deaf = true
		w.register(node("b", "20", labels{"k": "v"}))
		reads := r.runs(time.Minute)
		assert.LessOrEqual(t, reads, int(time.Minute/watchGrace)+1, "the reads are bounded")
		assert.True(t, w.record().DeletedAt.IsZero())
		w.delete()
		r.runs(watchGrace)
		assert.False(t, w.record().DeletedAt.IsZero())
		assert.False(t, r.Tracks("n1"))
	})
}

func TestARecordThatChangedMeanwhileIsReadAndDecidedAgain(t *testing.T) {
	w := newCluster(t, "", node("a", "10", labels{"k": "v"}))
	r := w.leads()
	r.wrote()

	w.edit(func(n *corev1.Node) { n.Labels["k"] = "w" })
	r.meanwhile("put n1", func() { // the webhook records a deletion, and the Node registers again with another label
		w.rewrites(func(r record.Record) record.Record {
			return record.Merge(r, record.Observation{UID: "b", Version: 200, Items: map[string]record.Item{"other": {Value: "1", Owner: record.Client}}})
		})
	})
	require.Empty(t, r.works())
	assert.Equal(t, []string{"put n1", "put n1"}, r.wrote())
	assert.Equal(t, labels{"k": "w", "other": "1"}, w.record().Items(), "neither is lost")
	assert.Equal(t, 1, int(valueOf(t, r.Metrics.errors.WithLabelValues(recordConflict))))
}

func TestANodeThatChangedMeanwhileIsReadAndDecidedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(w *cluster)
		shows     labels
		remembers labels
	}{
		"a client sets the label itself": {
			func(w *cluster) { w.label("k", "client") },
			labels{"k": "client", worker: ""}, labels{"k": "client", worker: ""},
		},
		"a client adds another label": {
			func(w *cluster) { w.label("other", "1") },
			labels{"k": "v", worker: "", "other": "1"}, labels{"k": "v", worker: "", "other": "1"},
		},
		"a client removes the gate": {
			func(w *cluster) { w.untaint(gate.Taint().Key) },
			labels{"k": "v", worker: ""}, labels{"k": "v", worker: ""},
		},
		"an operator makes nodekeep forget a label": {
			func(w *cluster) {
				w.rewrites(func(r record.Record) record.Record { return record.Forget(r, []string{worker}) })
				w.label("other", "1")
			},
			labels{"k": "v", "other": "1"}, labels{"k": "v", "other": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", remembered("a", 10, labels{"k": "v", worker: ""}), node("b", "20", nil, gated))
			r := w.leader()
			r.meanwhile("patch n1", func() { c.meanwhile(w) })
			require.Empty(t, r.works())
			assert.Equal(t, c.shows, w.shows())
			assert.Equal(t, c.remembers, w.record().Items())
			assert.Equal(t, 1, int(valueOf(t, r.Metrics.errors.WithLabelValues(nodeConflict))))
		})
	}
}

func TestANodeThatIsReplacedMeanwhileIsLeftAlone(t *testing.T) {
	for name, register := range map[string]bool{"deleted": false, "deleted and registered again": true} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", remembered("a", 10, labels{worker: ""}), node("b", "20", nil, gated))
			r := w.leader()
			r.meanwhile("patch n1", func() {
				r.deaf = true
				w.delete()
				if register {
					w.register(node("c", "300", nil, gated))
				}
			})
			require.Empty(t, r.works(), "the watch will bring what comes next")
			assert.Equal(t, []string{"patch n1"}, r.wrote())
			assert.Equal(t, types.UID("a"), w.record().Newest().UID)
			if register {
				assert.Equal(t, labels{"nodekeep.dev/restoring:NoSchedule": ""}, w.shows())
				refused, _ := r.refusals.Waiting("c", w.now())
				assert.Empty(t, refused)
			}
		})
	}
}

func TestALabelThatTheAPIServerRefusesIsFoundKeyByKey(t *testing.T) {
	w := newCluster(t, followDedicated, remembered("a", 10, labels{"dedicated": "ci", "k": "v", "refused": "x", "z": "1"}))
	w.register(node("b", "20", nil, gated))
	w.admits = refusing("refused", true)
	r := w.leader()
	retries := 0
	for ; len(r.works()) > 0; retries++ {
		require.Equal(t, labels{"nodekeep.dev/restoring:NoSchedule": ""}, w.shows(), "nothing is given up early")
		r.Enqueue("n1")
	}
	assert.Equal(t, refusalsBeforeItemByItem-1, retries)
	all := labels{"dedicated": "ci", "dedicated:NoSchedule": "ci", "k": "v", "z": "1", "nodekeep.dev/restoring:NoSchedule": ""}
	assert.Equal(t, all, w.shows(), "all but the label, and the gate stays")
	assert.Equal(t, "x", w.record().Items()["refused"], "it stays remembered")
	assert.Equal(t, types.UID("b"), w.record().Newest().UID)
	assert.Equal(t, 1, count(r.reported(), LabelRefused))

	r.wrote()
	r.rests()

	w.admits = nil
	r.rests() // it waits
	w.passes(pace.FirstPause)
	r.Enqueue("n1") // as the end of the wait does
	require.Empty(t, r.works())
	delete(all, "nodekeep.dev/restoring:NoSchedule")
	all["refused"] = "x"
	assert.Equal(t, all, w.shows())
}

func TestARefusedLabelIsTriedAgainForEverAndLessAndLessOften(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v", "refused": "x"}), node("b", "20", nil, gated))
	w.admits = refusing("refused", true)
	r := w.leader()
	for len(r.works()) > 0 {
		r.Enqueue("n1")
	}
	for pause := pace.FirstPause; pause <= 2*pace.LongestPause; pause *= 2 {
		wait := min(pause, pace.LongestPause)
		r.wrote()
		w.passes(wait - time.Millisecond)
		r.rests()
		w.passes(time.Millisecond)
		r.Enqueue("n1")
		require.Empty(t, r.works())
		assert.NotEmpty(t, r.wrote(), "tried again after %s", wait)
	}
	assert.Equal(t, 1, count(r.reported(), LabelRefused), "one Event for all")
	w.admits = nil
	w.passes(pace.LongestPause)
	r.Enqueue("n1")
	require.Empty(t, r.works())
	assert.Equal(t, labels{"k": "v", "refused": "x"}, w.shows(), "and the gate is lifted")
	assert.Contains(t, r.reported(), GateLifted)
	refused, _ := r.refusals.Waiting("b", w.now())
	assert.Empty(t, refused)
}

func TestWhereEveryChangeIsRefusedNoLabelIsGivenUp(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}), node("b", "20", nil, gated))
	w.admits = func(*corev1.Node, *corev1.Node) error { return errors.New("maintenance") }
	r := w.leader()
	for range 10 {
		require.Len(t, r.works(), 1)
		r.Enqueue("n1")
	}
	refused, _ := r.refusals.Waiting("b", w.now())
	assert.Empty(t, refused)
	w.admits = nil
	require.Empty(t, r.works())
	assert.Equal(t, labels{"k": "v"}, w.shows())
}

func TestATaintThatAClientAddsAgainAfterItWasDerivedIsTheClients(t *testing.T) {
	w := newCluster(t, followDedicated, node("a", "10", labels{"dedicated": "ci", "k": "v"}))
	r := w.leads()
	require.Equal(t, labels{"dedicated": "ci", "dedicated:NoSchedule": "ci", "k": "v"}, w.shows())

	w.edit(func(n *corev1.Node) { // in one request
		delete(n.Labels, "dedicated")
		n.Spec.Taints = nil
	})
	require.Empty(t, r.works())
	assert.Empty(t, w.node().Annotations[policy.TaintsAnnotation])
	w.edit(tainted("dedicated=ci:NoSchedule"))
	require.Empty(t, r.works())
	assert.Equal(t, labels{"dedicated:NoSchedule": "ci", "k": "v"}, w.shows(), "it is not removed")
	assert.Equal(t, labels{"dedicated:NoSchedule": "ci", "k": "v"}, w.record().Items())
}

func TestTheStampSaysSinceWhichVersionALabelIsSet(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v", worker: ""}), node("b", "120", labels{"k": "v"}, given(labels{"k": "v"}), gated))
	w.leads()
	stamp, ok := record.ParseStamp(w.node().Annotations[policy.StampAnnotation])
	require.True(t, ok)
	assert.Equal(t, map[string]record.Given{"k": {Value: "v"}, worker: {From: 10, Version: 120}}, stamp.Given)
}

func TestOnlyWhatTheWebhookGaveIsReportedAsRestoredAtRegistration(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v", worker: ""}), node("b", "120", labels{"k": "v"}, given(labels{"k": "v"}), gated))
	r := w.leader()
	r.refuses = errors.New("quota")
	require.Len(t, r.works(), 1, "the label is restored, and the record cannot be written")
	r.reported()

	next := w.leader() // capture has restarted
	require.Empty(t, next.works())
	require.Len(t, next.events.Events, 1)
	assert.Equal(t, "Normal LabelsRestored Restored at registration: k", <-next.events.Events)
}

func TestAnUnreadableRecordIsLeftAsItIsAndKeepsTheGate(t *testing.T) {
	w := newCluster(t, "")
	w.Tamper("n1", []byte("no JSON"))
	w.register(node("a", "10", labels{"k": "v"}, gated))
	r, standby := w.leader(), w.replica()
	for range 3 {
		r.enqueueAll()
		require.Empty(t, r.works())
		standby.enqueueAll()
		require.Empty(t, standby.works())
		w.passes(time.Minute)
		standby.looks()
	}
	assert.Empty(t, slices.Concat(r.wrote(), standby.wrote()))
	assert.Equal(t, []string{RecordInvalid}, r.reported(), "once")
	assert.Empty(t, standby.reported(), "the leader reports it")
	w.register(node("b", "12", labels{"k": "v"}, gated))
	r.reconciles()
	assert.Equal(t, []string{RecordInvalid}, r.reported(), "again for the new Node object")
	_, current, _ := r.observations.counts()
	assert.Zero(t, current)

	w.Remove("n1")
	r.reconciles()
	assert.Equal(t, labels{"k": "v"}, w.shows())
	assert.Equal(t, labels{"k": "v"}, w.record().Items())
}

func TestARecordThatLostItsLabelIsFoundAgain(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v", worker: ""}), node("b", "20", nil, gated))
	r := w.replica()
	lost := true // the label by which a cache finds it, until it is written again
	r.sees = func(_ string, live bool, entry *store.Entry, err error) error {
		if entry.Unlisted = lost; lost && !live {
			return store.ErrNotFound
		}
		return err
	}
	r.hook = func(write string) { lost = lost && write != "put n1" }
	r.Lead()
	require.Empty(t, r.works())
	assert.False(t, lost, "it has the label again")
	assert.Equal(t, labels{"k": "v", worker: ""}, w.shows())

	lost = true // and where its Node lacks nothing
	w.label("other", "1")
	require.Empty(t, r.works())
	assert.False(t, lost)
	assert.Equal(t, labels{"k": "v", worker: "", "other": "1"}, w.record().Items())
}

func TestThatARecordOfALiveNodeVanishedIsCountedAndItIsWrittenAgain(t *testing.T) {
	w := newCluster(t, "", node("a", "10", labels{"k": "v"}))
	r := w.leads()
	w.Remove("n1")
	r.NoteRecordVanished("n1")
	r.reconciles()
	assert.Equal(t, labels{"k": "v"}, w.record().Items())
	assert.Equal(t, 1, int(valueOf(t, r.Metrics.vanished)))
	assert.Contains(t, r.reported(), RecordVanished)
}

// While no process ran, nobody saw the record go. The Node shows that it had one.
func TestThatARecordVanishedMeanwhileIsSaidOfANodeThatWasRestored(t *testing.T) {
	for name, c := range map[string]struct {
		stamp func(*corev1.Node)
		says  bool
	}{
		"restored":                            {given(labels{"k": "v"}), true},
		"restored from the record of another": {givenOf("old", labels{"k": "v"}), false},
		"never restored":                      {func(*corev1.Node) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", node("a", "10", labels{"k": "v"}, c.stamp))
			r := w.leads()
			assert.Equal(t, c.says, slices.Contains(r.reported(), RecordVanished))
			assert.Equal(t, labels{"k": "v"}, w.record().Items())
			assert.Equal(t, labels{"k": "v"}, w.shows())
		})
	}
}

func TestAnAnswerWithoutAVersionChangesNothing(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}), node("b", "20", nil, gated))
	r := w.leader()
	r.versionless, r.deaf = true, true
	require.ErrorContains(t, r.works()["n1"], "resourceVersion")
	assert.Equal(t, types.UID("a"), w.record().Newest().UID)
	assert.Equal(t, []string{"patch n1"}, r.wrote())
}

func TestATaintOfARuleThatAClientKeepsRemovingIsAddedLessAndLessOften(t *testing.T) {
	w := newCluster(t, followDedicated, node("a", "10", labels{"dedicated": "ci"}))
	r := w.leads()
	for range pace.FreeFlaps {
		w.untaint("dedicated")
		require.Empty(t, r.works())
		assert.Contains(t, w.shows(), "dedicated:NoSchedule", "added again at once")
	}
	r.reported()
	r.wrote()
	w.untaint("dedicated")
	require.Empty(t, r.works())
	assert.NotContains(t, w.shows(), "dedicated:NoSchedule", "nodekeep waits")
	assert.Equal(t, []string{ItemPaused}, r.reported())
	assert.Equal(t, 1, r.fights.Paused(w.now()))
	w.edit(gated)
	require.Empty(t, r.works())
	assert.Contains(t, w.shows(), "nodekeep.dev/restoring:NoSchedule", "the gate stays, since the Node is not as it should be")

	w.passes(pace.FirstPause)
	r.reconciles()
	assert.Equal(t, labels{"dedicated": "ci", "dedicated:NoSchedule": "ci"}, w.shows())
	assert.LessOrEqual(t, len(r.wrote()), 2)
}

// Without the annotation, nobody can tell that the label was there: it is restored each time.
func TestALabelThatAClientKeepsRemovingTogetherWithTheAnnotationIsRestoredLessAndLessOften(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v", "other": "1"}), node("b", "20", labels{"other": "1"}, given(labels{"other": "1"})))
	r := w.leads()
	r.wrote()
	r.reported()
	for range 100 {
		w.edit(func(n *corev1.Node) {
			delete(n.Labels, "k")
			n.Annotations = nil
		})
		require.Empty(t, r.works())
	}
	assert.LessOrEqual(t, len(r.wrote()), 2*pace.FreeFlaps)
	assert.Equal(t, 1, count(r.reported(), ItemPaused))
	assert.NotContains(t, w.shows(), "k")

	w.passes(pace.FirstPause)
	r.reconciles()
	assert.Equal(t, labels{"k": "v", "other": "1"}, w.shows())
}

const onReboot = `taints: {register: [{taint: "unverified:NoSchedule", onReboot: true}]}`

func TestAKubeletThatReportsAnotherBootEachTimeIsMetWithPauses(t *testing.T) {
	w := newCluster(t, onReboot, remembered("a", 11, labels{"k": "v"}), node("a", "11", labels{"k": "v"}, boots("0", "0")))
	r := w.leads()
	r.wrote()
	for i := range 100 {
		w.edit(func(n *corev1.Node) { n.Status.NodeInfo.BootID, n.Spec.Taints = fmt.Sprint(i+1), nil })
		require.Empty(t, r.works())
	}
	assert.Len(t, r.wrote(), 3)
	assert.NotContains(t, r.reported(), ItemPaused, "nobody undoes anything")
	assert.Equal(t, labels{"k": "v"}, w.shows())

	w.passes(pace.BootInterval)
	assert.True(t, r.queues(notItsTurn(t)), "a Node that waits is not idle")
	assert.Equal(t, labels{"k": "v", "unverified:NoSchedule": ""}, w.shows(), "no reboot is forgotten")
}

func TestAMachineThatRebootsAgainAndAgainIsTaintedEachTime(t *testing.T) {
	w := newCluster(t, onReboot, remembered("a", 11, labels{"k": "v"}), node("a", "11", labels{"k": "v"}, boots("0", "0")))
	r := w.leads()
	for i := range 30 {
		w.passes(50 * time.Second)
		w.edit(func(n *corev1.Node) { n.Status.NodeInfo.BootID, n.Spec.Taints = fmt.Sprint(i+1), nil })
		require.Empty(t, r.works())
		require.Equal(t, labels{"k": "v", "unverified:NoSchedule": ""}, w.shows(), "reboot %d", i+1)
	}
	assert.NotContains(t, r.reported(), ItemPaused)
}

func TestAStandbyLeavesBootsToTheLeaderThatNotesThemInTurn(t *testing.T) {
	const nodes, perSecond = 400, 50
	w := newCluster(t, onReboot)
	for i := range nodes {
		w.register(numbered(i))
	}
	w.leads()
	for i := range nodes {
		n, err := w.get(numbered(i).Name)
		require.NoError(t, err)
		boots("2", "1")(n)
		w.commit(n)
	}
	standby := whileALeaderWorks(t, w, nodes, perSecond)
	assert.Empty(t, standby.wrote())
	assert.Empty(t, standby.due())
}

func TestATaintOfARebootThatTheAPIServerRefusesKeepsNothingElseFromTheNode(t *testing.T) {
	const rules = `taints: {register: [{taint: "unverified:NoSchedule", onReboot: true}], rules: [{selector: k=v, taint: "rule:NoSchedule"}]}`
	complete := labels{"k": "v", "rule:NoSchedule": ""}
	for name, c := range map[string]struct {
		record *record.Record
		node   *corev1.Node
	}{
		"a label is missing":          {remembered("a", 10, labels{"k": "v"}), node("b", "20", nil, boots("2", "1"), gated)},
		"all but the rule's taint is": {remembered("a", 10, labels{"k": "v"}), node("a", "11", labels{"k": "v"}, boots("2", "1"), gated)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, rules, c.record, c.node)
			denied := true
			w.admits = func(_, updated *corev1.Node) error {
				if denied && slices.ContainsFunc(updated.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "unverified" }) {
					return errors.New("this taint is denied")
				}
				return nil
			}
			r := w.leader()
			for range 10 {
				r.works()
				r.Enqueue("n1") // as the queue does after a failure
			}
			assert.Equal(t, complete, w.shows(), "the gate is gone, and the rule is followed")
			assert.Equal(t, 1, count(r.reported(), LabelRefused))
			denied = false
			w.passes(pace.LongestPause)
			r.reconciles()
			assert.Equal(t, labels{"k": "v", "rule:NoSchedule": "", "unverified:NoSchedule": ""}, w.shows())
		})
	}
}

func TestATaintOfARuleThatTheAPIServerRefusesKeepsNoTaintOfARebootFromTheNode(t *testing.T) {
	const rules = `taints: {register: [{taint: "unverified:NoSchedule", onReboot: true}], rules: [{selector: k=v, taint: "rule:NoSchedule"}]}`
	w := newCluster(t, rules, remembered("a", 10, labels{"k": "v"}), node("a", "11", labels{"k": "v"}, boots("2", "1")))
	w.admits = func(_, updated *corev1.Node) error {
		if slices.ContainsFunc(updated.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "rule" }) {
			return errors.New("this taint is denied")
		}
		return nil
	}
	r := w.leader()
	for range 10 {
		r.works()
		r.Enqueue("n1")
	}
	assert.Equal(t, labels{"k": "v", "unverified:NoSchedule": ""}, w.shows())
	events := r.reported()
	assert.Zero(t, count(events, LabelRefused), "the boot was not refused")
	assert.Equal(t, 1, count(events, RulesApplied), "it says that the taint was added")
}

func TestAStandbyKeepsToThePauseOfTheLeaderForAMachineThatRebootsAllTheTime(t *testing.T) {
	w := newCluster(t, onReboot, remembered("a", 10, labels{"k": "v"}), node("a", "11", labels{"k": "v"}, boots("1", "1")))
	leader, standby := w.leader(), w.replica()
	for boot := range 10 {
		n, err := w.get("n1")
		require.NoError(t, err)
		n.Status.NodeInfo.BootID = fmt.Sprint(boot + 2)
		w.commit(n)
		for range 4 {
			require.Empty(t, standby.works())
			leader.works()
			standby.works()
			w.passes(time.Second)
		}
	}
	assert.Empty(t, standby.wrote())
	assert.NotEmpty(t, leader.wrote())
}

func TestALabelThatTheAPIServerRefusesKeepsNoTaintOfARebootFromTheNode(t *testing.T) {
	w := newCluster(t, onReboot, remembered("a", 10, labels{"k": "v"}), node("b", "20", nil, boots("2", "1"), gated))
	w.admits = func(_, updated *corev1.Node) error {
		if _, given := updated.Labels["k"]; given {
			return errors.New("this label is denied")
		}
		return nil
	}
	r := w.leader()
	for range 10 {
		r.works()
		r.Enqueue("n1")
	}
	assert.Equal(t, labels{"unverified:NoSchedule": "", "nodekeep.dev/restoring:NoSchedule": ""}, w.shows())
}

func TestTheRecordOfANodeThatChangesAllTheTimeWaitsAndHoldsTheLastState(t *testing.T) {
	w := newCluster(t, "", node("a", "10", labels{"k": "0"}))
	r := w.leads()
	r.wrote()
	for i := range 100 {
		w.label("k", fmt.Sprint(i+1))
		require.Empty(t, r.works())
		w.passes(20 * time.Millisecond)
	}
	assert.Len(t, r.wrote(), 4, "in 2 s")
	w.passes(pace.RecordInterval)
	r.reconciles()
	assert.Equal(t, labels{"k": "100"}, w.record().Items())

	for i := range 10 {
		w.label("k", fmt.Sprint(i+1000))
	}
	w.delete()
	require.Empty(t, r.works())
	assert.Equal(t, labels{"k": "1009"}, w.record().Items(), "a deletion does not wait")
}

func TestAGatedNodeWhoseDeletionWasRecordedAndDidNotHappenIsCompleted(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}), node("b", "120", labels{"x": "1"}, gated))
	r := w.leader()
	r.deaf = true
	w.edit(func(*corev1.Node) {}) // a heartbeat; then the webhook records a deletion that another admission policy denies
	observed := record.Observation{UID: "b", Version: 121, Final: true, Items: map[string]record.Item{"x": {Value: "1"}}}
	w.rewrites(func(r record.Record) record.Record { return record.Merge(r, observed) })
	require.Empty(t, r.works())
	assert.Contains(t, w.shows(), "nodekeep.dev/restoring:NoSchedule", "a later state than the watch has brought")

	r.deaf = false
	w.edit(func(*corev1.Node) {}) // the next heartbeat, which differs in nothing
	assert.Zero(t, r.queue.Len())
	r.Enqueue("n1") // what follows after [watchGrace]
	require.Empty(t, r.works())
	assert.Equal(t, labels{"k": "v", "x": "1"}, w.shows())
}

func count(list []string, name string) (n int) {
	for _, text := range list {
		if text == name {
			n++
		}
	}
	return n
}
