//go:build oldcore

package capture

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// wrote is an entry of managedFields: who owns these items, and when it last changed one, in minutes before now. "taints"
// stands for the list of taints.
func wrote(manager string, minutesAgo int, items ...string) metav1.ManagedFieldsEntry {
	fields := map[string]any{}
	owned := map[string]any{}
	for _, item := range items {
		if item == "taints" {
			fields["f:spec"] = map[string]any{"f:taints": struct{}{}}
		} else {
			owned["f:"+item] = struct{}{}
		}
	}
	fields["f:metadata"] = map[string]any{"f:labels": owned}
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	at := metav1.NewTime(now.Add(-time.Duration(minutesAgo) * time.Minute))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at, FieldsV1: metav1.NewFieldsV1(string(raw))}
}

// object is a Node as the API server has it.
func object(uid types.UID, version string, items labels, entries ...metav1.ManagedFieldsEntry) *corev1.Node {
	own, taints := policy.Split(items)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version, Labels: own, ManagedFields: entries},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

// entries are a history in a few words: number, minutes before now, actor, and what changed.
func entries(history []store.Change) []string {
	told := []string{}
	for _, change := range history {
		words := []string{fmt.Sprintf("%d: %s ago %q", change.Number, now.Truncate(time.Second).Sub(change.Time.Time), change.Actor)}
		raw, err := json.Marshal(change)
		if err != nil {
			panic(err)
		}
		var fields struct{ Labels, Taints json.RawMessage }
		if err := json.Unmarshal(raw, &fields); err != nil {
			panic(err)
		}
		told = append(told, strings.Join(append(words, string(fields.Labels)+string(fields.Taints)), " "))
	}
	return told
}

func TestHistory(t *testing.T) {
	const never = `{protected: never}`
	stampOf := func(of *corev1.Node, given labels) *corev1.Node {
		of.Annotations = map[string]string{policy.StampAnnotation: policy.NewStamp(nil, nil).Given(given).String()}
		return of
	}
	for name, c := range map[string]struct {
		policy string
		prev   *store.Record
		seen   *corev1.Node
		event  Event
		want   []string
	}{
		"the first record has none": {
			seen: object("a", "5", labels{"k": "v"}, wrote("kubectl-label", 3, "k")),
		},
		"a label is changed: by its owner, when it says so": {
			prev: remembered("a", "5", labels{"k": "v", "other": "x"}),
			seen: object("a", "6", labels{"k": "w", "other": "x"}, wrote("kubectl-label", 3, "k"), wrote("kubectl-edit", 1, "other")),
			want: []string{`1: 3m0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`},
		},
		"a label is added": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "v", "new": ""}, wrote("ansible", 2, "new", "k")),
			want: []string{`1: 2m0s ago "ansible" {"new":{"to":""}}`},
		},
		"a label is taken off: nobody knows by whom, and the time is that of the sight": {
			prev: remembered("a", "5", labels{"k": "v", "other": "x"}),
			seen: object("a", "6", labels{"other": "x"}, wrote("kubectl-label", 3, "other")),
			want: []string{`1: 0s ago "" {"k":{"from":"v"}}`},
		},
		"several labels of one hand are one entry": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "w", "l": "1", "m": "2"}, wrote("ansible", 2, "k", "l", "m")),
			want: []string{`1: 2m0s ago "ansible" {"k":{"from":"v","to":"w"},"l":{"to":"1"},"m":{"to":"2"}}`},
		},
		"labels of several hands are entries in the order of time": {
			prev: remembered("a", "5", labels{"k": "v", "gone": "x"}),
			seen: object("a", "6", labels{"k": "w", "l": "1", "m": "2"}, wrote("ansible", 1, "k"), wrote("kubectl-label", 7, "l"), wrote("kubectl-edit", 1, "m")),
			want: []string{
				`1: 7m0s ago "kubectl-label" {"l":{"to":"1"}}`, `2: 1m0s ago "ansible" {"k":{"from":"v","to":"w"}}`,
				`3: 1m0s ago "kubectl-edit" {"m":{"to":"2"}}`, `4: 0s ago "" {"gone":{"from":"x"}}`,
			},
		},
		"of two owners the one that wrote last": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "w"}, wrote("a-first", 2, "k"), wrote("b-last", 1, "k"), wrote("c-first", 3, "k")),
			want: []string{`1: 1m0s ago "b-last" {"k":{"from":"v","to":"w"}}`},
		},
		"an owner without a time": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "w"}, func() metav1.ManagedFieldsEntry { e := wrote("kubectl-label", 3, "k"); e.Time = nil; return e }()),
			want: []string{`1: 0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`},
		},
		"the API server has put owners together: nobody knows": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "w"}, wrote("ancient-changes", 3, "k")),
			want: []string{`1: 0s ago "" {"k":{"from":"v","to":"w"}}`},
		},
		"a label without an owner: nobody knows": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "w"}),
			want: []string{`1: 0s ago "" {"k":{"from":"v","to":"w"}}`},
		},
		"the history goes on": {
			prev: remembered("a", "5", labels{"k": "v"}, withHistoryOf(41)),
			seen: object("a", "6", labels{"k": "w"}, wrote("kubectl-label", 3, "k")),
			want: []string{`41: 1h0m0s ago "ansible" {"k":{"from":"u","to":"v"}}`, `42: 3m0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`},
		},
		"the record changes in something else: no entry": {
			prev:  remembered("a", "5", labels{"k": "v"}, withHistoryOf(1)),
			seen:  object("a", "6", labels{"k": "v"}, wrote("kubectl-label", 3, "k")),
			event: Deleted,
			want:  []string{`1: 1h0m0s ago "ansible" {"k":{"from":"u","to":"v"}}`},
		},
		"an edit that is seen only when the Node is gone": {
			prev:  remembered("a", "5", labels{"k": "v"}),
			seen:  object("a", "6", labels{"k": "w"}, wrote("kubectl-label", 3, "k")),
			event: Deleted,
			want:  []string{`1: 3m0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`},
		},
		"a Node registers again as it was: no entry": {
			prev: remembered("a", "5", labels{"k": "v"}, goneSince(earlier), withHistoryOf(1)),
			seen: stampOf(object("b", "9", labels{"k": "v"}), labels{"k": "v"}),
			want: []string{`1: 1h0m0s ago "ansible" {"k":{"from":"u","to":"v"}}`},
		},
		"a Node registers again and brings another value": {
			prev: remembered("a", "5", labels{"k": "v"}, goneSince(earlier)),
			seen: object("b", "9", labels{"k": "own"}, wrote("kubelet-with-labels", 2, "k")),
			want: []string{`1: 2m0s ago "kubelet-with-labels" {"k":{"from":"v","to":"own"}}`},
		},
		"a Node registers again without what the policy never gives: it is remembered, so nothing has changed": {
			policy: never,
			prev:   remembered("a", "5", labels{worker: "", "k": "v"}, goneSince(earlier), withHistoryOf(1)),
			seen:   stampOf(object("b", "9", labels{"k": "v"}), labels{"k": "v"}),
			want:   []string{`1: 1h0m0s ago "ansible" {"k":{"from":"u","to":"v"}}`},
		},
		"the policy keeps a label no more: it is remembered, so nothing has changed": {
			policy: `{keep: [other]}`,
			prev:   remembered("a", "5", labels{"k": "v", "other": "x"}),
			seen:   object("a", "6", labels{"k": "v", "other": "x"}, wrote("kubectl-label", 3, "k", "other")),
		},
		"capture had given a label: a change of it is told as nodekeep's": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "w"}, wrote(fieldManager, 1, "k")),
			want: []string{`1: 1m0s ago "nodekeep" {"k":{"from":"v","to":"w"}}`},
		},
		"a label that was restored from a stale record and could not be put right is told as nodekeep's": {
			prev: remembered("a", "5", labels{"k": "v", worker: ""}, goneSince(earlier)),
			seen: stampOf(object("b", "9", labels{"k": "stale", worker: ""}, wrote("refusing", 1, "none")), labels{"k": "stale", worker: ""}),
			want: []string{`1: 0s ago "nodekeep" {"k":{"from":"v","to":"stale"}}`},
		},
		"a taint is put on: by who wrote the list last": {
			prev: remembered("a", "5", labels{"k": "v"}),
			seen: object("a", "6", labels{"k": "v", "maintenance:NoExecute": "disk"}, wrote("kubectl-taint", 4, "taints")),
			want: []string{`1: 4m0s ago "kubectl-taint" [{"key":"maintenance","effect":"NoExecute","to":"disk"}]`},
		},
		"a taint is taken off, another is left: by who wrote the list last": {
			prev: remembered("a", "5", labels{"x:NoSchedule": "", "y:NoSchedule": ""}),
			seen: object("a", "6", labels{"y:NoSchedule": ""}, wrote("kubectl-taint", 4, "taints")),
			want: []string{`1: 4m0s ago "kubectl-taint" [{"key":"x","effect":"NoSchedule","from":""}]`},
		},
		"the last taint is taken off: nobody owns the list": {
			prev: remembered("a", "5", labels{"x:NoSchedule": ""}),
			seen: object("a", "6", nil),
			want: []string{`1: 0s ago "" [{"key":"x","effect":"NoSchedule","from":""}]`},
		},
		"a controller wrote the list of taints last: it may have been for another taint": {
			prev: remembered("a", "5", nil),
			seen: object("a", "6", labels{"x:NoSchedule": "", "node.kubernetes.io/not-ready:NoExecute": ""}, wrote("kube-controller-manager", 1, "taints")),
			want: []string{`1: 0s ago "" [{"key":"x","effect":"NoSchedule","to":""}]`},
		},
		"nodekeep wrote the list of taints last: it was for another taint": {
			prev: remembered("a", "5", nil),
			seen: object("a", "6", labels{"x:NoSchedule": ""}, wrote(fieldManager, 1, "taints")),
			want: []string{`1: 0s ago "" [{"key":"x","effect":"NoSchedule","to":""}]`},
		},
		"a taint is put on again that admission had given this object: by who wrote the list last": {
			prev: remembered("a", "5", nil),
			seen: stampOf(object("a", "6", labels{"x:NoSchedule": "1"}, wrote("kubectl-taint", 1, "taints")), labels{"x:NoSchedule": "1"}),
			want: []string{`1: 1m0s ago "kubectl-taint" [{"key":"x","effect":"NoSchedule","to":"1"}]`},
		},
		"an older object is seen late, and its record was first written at the deletion of a later one": {
			prev:  remembered("b", "9", labels{"k": "v"}, early),
			seen:  object("a", "5", labels{"k": "w", "l": "1"}, wrote("ansible", 20, "k", "l")),
			event: Deleted,
			want:  []string{`1: 20m0s ago "ansible" {"l":{"to":"1"}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			section := c.policy
			if section == "" {
				section = `{}`
			}
			seen := nodeOf(c.seen)
			if strings.Contains(name, "could not be put right") {
				seen.Refused = map[string]bool{"k": true}
			}
			got := plan(c.prev, seen, c.event, loadPolicy(t, section), now)
			require.NotNil(t, got.Write, "%v", got)
			assert.Equal(t, append([]string{}, c.want...), entries(got.Write.History))
			if event := c.event; event == Present {
				again := plan(got.Write, seen, event, loadPolicy(t, section), now.Add(time.Hour))
				if again.Write != nil {
					assert.Equal(t, got.Write.History, again.Write.History, "seen twice, it is told once")
				}
			}
		})
	}
}

// withHistoryOf is a history of one entry with that number: an hour ago the label k changed from u to v.
func withHistoryOf(number int) func(*store.Record) {
	from, to := "u", "v"
	return func(r *store.Record) {
		r.History = []store.Change{{Number: number, Time: *timestamp(now.Add(-time.Hour)), Actor: "ansible", Items: map[string]store.Values{"k": {From: &from, To: &to}}}}
	}
}

func TestOfTwoMachinesUnderOneNameEachHasAHistoryOfItsOwn(t *testing.T) {
	p := loadPolicy(t, "{}QUARANTINE")
	old := remembered("a", "5", labels{"k": "v"}, ofMachine("m1"), withHistoryOf(7))
	other := object("b", "9", labels{"own": "x"})
	other.Status.NodeInfo.SystemUUID = "m2"
	isolated := plan(old, nodeOf(other), Present, p, now).Write
	require.NotNil(t, isolated.Quarantined)
	assert.Empty(t, isolated.History)
	assert.Equal(t, old.History, isolated.Quarantined.History)

	other.Labels, other.ResourceVersion = labels{"own": "y"}, "10"
	edited := plan(isolated, nodeOf(other), Present, p, now).Write
	assert.Equal(t, []string{`1: 0s ago "" {"own":{"from":"x","to":"y"}}`}, entries(edited.History))
	assert.Equal(t, old.History, edited.Quarantined.History)

	edited.Accepted = store.OldMachine
	assert.Equal(t, old.History, plan(edited, nodeOf(other), Present, p, now).Write.History)
	want := edited.History
	edited.Accepted = store.NewMachine
	assert.Equal(t, want, plan(edited, nodeOf(other), Present, p, now).Write.History)
}

func TestARecordWhoseHistoryWasLeftOutIsPlannedTheSameAndNeverWritten(t *testing.T) {
	prev := remembered("a", "5", labels{"k": "v"}, withHistoryOf(7))
	inMemory := prev.WithoutHistory()
	seen := nodeOf(object("a", "6", labels{"k": "w"}))
	right, planned := plan(prev, seen, Present, policy.Default(), now), plan(&inMemory, seen, Present, policy.Default(), now)
	assert.True(t, planned.Write.HistoryLeftOut())
	assert.True(t, right.Write.Same(*planned.Write))
	_, err := (&store.Memory{}).Put(t.Context(), *planned.Write, "")
	assert.ErrorContains(t, err, "read it live")
}

func TestALookAtADeletionAddsToTheHistory(t *testing.T) {
	records := &store.Memory{}
	_, err := records.Put(t.Context(), *remembered("a", "5", labels{"k": "v"}, withHistoryOf(7)), "")
	require.NoError(t, err)
	late := object("a", "6", labels{"k": "w"}, wrote("kubectl-label", 3, "k"))
	for range 2 { // an API server may ask again
		assert.True(t, reviewDeletionOf(t, records, late).Allowed)
		entry, err := records.GetLive(t.Context(), "n1")
		require.NoError(t, err)
		assert.Equal(t, "6", entry.Record.NodeResourceVersion)
		assert.Equal(t, []string{`7: 1h0m0s ago "ansible" {"k":{"from":"u","to":"v"}}`, `8: 3m0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`}, entries(entry.Record.History))
	}
}
