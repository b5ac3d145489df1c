package observe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// lines returns a history in a few words: number, minutes before now, actor, and what changed.
func lines(changes []history.Change) []string {
	entries := []string{}
	for _, change := range changes {
		words := []string{fmt.Sprintf("%d: %s ago %q", change.Number, now.Truncate(time.Second).Sub(change.Time.Time), change.Actor)}
		raw, err := json.Marshal(change)
		if err != nil {
			panic(err)
		}
		var fields struct{ Labels, Taints json.RawMessage }
		if err := json.Unmarshal(raw, &fields); err != nil {
			panic(err)
		}
		entries = append(entries, strings.Join(append(words, string(fields.Labels)+string(fields.Taints)), " "))
	}
	return entries
}

// withHistory returns the record with a history of one entry of that number: an hour ago the label k changed from u to v.
func withHistory(r record.Record, number int) record.Record {
	from, to := "u", "v"
	data, err := json.Marshal([]history.Change{{Number: number, Time: metav1.NewTime(now.Truncate(time.Second).Add(-time.Hour)), Actor: "ansible", Items: map[string]history.Values{"k": {From: &from, To: &to}}}})
	if err != nil {
		panic(err)
	}
	r.History = data
	return r
}

func TestAHistoryShowsWhoChangedWhatAsFarAsTheNodeDoes(t *testing.T) {
	const anHourAgo = `1: 1h0m0s ago "ansible" {"k":{"from":"u","to":"v"}}`
	for name, c := range map[string]struct {
		policy string
		prev   record.Record
		node   *corev1.Node
		want   []string
	}{
		"the first record has none": {
			node: object("a", 5, labels{"k": "v", "t:NoSchedule": ""}, wrote("kubectl-label", 3, "k")),
		},
		"a label is changed: by its owner, when it says so": {
			prev: remembering("a", 5, labels{"k": "v", "other": "x"}),
			node: object("a", 6, labels{"k": "w", "other": "x"}, wrote("kubectl-label", 3, "k"), wrote("kubectl-edit", 1, "other")),
			want: []string{`1: 3m0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`},
		},
		"a cordon: by its owner, not by that of the taints": {
			policy: "cordon: keep", prev: remembering("a", 5, labels{"k": "v"}),
			node: cordoned(object("a", 6, labels{"k": "v"}, wrote("kubectl-cordon", 3, "unschedulable"), wrote("kubectl-taint", 1, "taints"))),
			want: []string{`1: 3m0s ago "kubectl-cordon" [{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule","to":""}]`},
		},
		"a Node is uncordoned: nobody knows by whom": {
			policy: "cordon: keep", prev: remembering("a", 5, labels{"k": "v", policy.Cordon: ""}),
			node: object("a", 6, labels{"k": "v"}, wrote("kubectl-taint", 1, "taints")),
			want: []string{`1: 0s ago "" [{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule","from":""}]`},
		},
		"a label is removed: nobody knows by whom, and the time is that of the observation": {
			prev: remembering("a", 5, labels{"k": "v", "other": "x"}),
			node: object("a", 6, labels{"other": "x"}, wrote("kubectl-label", 3, "other")),
			want: []string{`1: 0s ago "" {"k":{"from":"v"}}`},
		},
		"labels of several hands are entries in the order of time": {
			prev: remembering("a", 5, labels{"k": "v", "gone": "x"}),
			node: object("a", 6, labels{"k": "w", "l": "1", "m": "2"}, wrote("ansible", 1, "k"), wrote("kubectl-label", 7, "l"), wrote("kubectl-edit", 1, "m")),
			want: []string{
				`1: 7m0s ago "kubectl-label" {"l":{"to":"1"}}`, `2: 1m0s ago "ansible" {"k":{"from":"v","to":"w"}}`,
				`3: 1m0s ago "kubectl-edit" {"m":{"to":"2"}}`, `4: 0s ago "" {"gone":{"from":"x"}}`,
			},
		},
		"of two owners the one that wrote last": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: object("a", 6, labels{"k": "w"}, wrote("a-first", 2, "k"), wrote("b-last", 1, "k"), wrote("c-first", 3, "k")),
			want: []string{`1: 1m0s ago "b-last" {"k":{"from":"v","to":"w"}}`},
		},
		"an owner without a time": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: object("a", 6, labels{"k": "w"}, func() metav1.ManagedFieldsEntry { e := wrote("kubectl-label", 3, "k"); e.Time = nil; return e }()),
			want: []string{`1: 0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`},
		},
		"the API server has put owners together: nobody knows": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: object("a", 6, labels{"k": "w"}, wrote(ancientChanges, 3, "k")),
			want: []string{`1: 0s ago "" {"k":{"from":"v","to":"w"}}`},
		},
		"a label without an owner: nobody knows": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: object("a", 6, labels{"k": "w"}),
			want: []string{`1: 0s ago "" {"k":{"from":"v","to":"w"}}`},
		},
		"the history goes on": {
			prev: withHistory(remembering("a", 5, labels{"k": "v"}), 41),
			node: object("a", 6, labels{"k": "w"}, wrote("kubectl-label", 3, "k")),
			want: []string{`41: 1h0m0s ago "ansible" {"k":{"from":"u","to":"v"}}`, `42: 3m0s ago "kubectl-label" {"k":{"from":"v","to":"w"}}`},
		},
		"a Node registers again as it was": {
			prev: withHistory(remembering("a", 5, labels{"k": "v"}), 1),
			node: stamped(object("b", 9, labels{"k": "v"}), given(labels{"k": "v"})),
			want: []string{anHourAgo},
		},
		"a Node registers again and brings another value": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: object("b", 9, labels{"k": "own"}, wrote("kubelet-with-labels", 2, "k")),
			want: []string{`1: 2m0s ago "kubelet-with-labels" {"k":{"from":"v","to":"own"}}`},
		},
		"a Node registers again without what the policy never restores": {
			policy: `labels: {protected: never}`,
			prev:   withHistory(remembering("a", 5, labels{worker: "", "k": "v"}), 1),
			node:   stamped(object("b", 9, labels{"k": "v"}), given(labels{"k": "v"})),
			want:   []string{anHourAgo},
		},
		"the policy no longer keeps a label: the record still has it": {
			policy: `labels: {keep: [other]}`,
			prev:   remembering("a", 5, labels{"k": "v", "other": "x"}),
			node:   object("a", 6, labels{"k": "w", "other": "x"}, wrote("kubectl-label", 3, "k", "other")),
		},
		"capture had set a label: a change of it counts as nodekeep's": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: object("a", 6, labels{"k": "w"}, wrote(FieldManager, 1, "k")),
			want: []string{`1: 1m0s ago "nodekeep" {"k":{"from":"v","to":"w"}}`},
		},
		"a client removed a label, and a capture that was behind set it again: nobody knows which client": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: stamped(object("a", 9, labels{"k": "v"}, wrote(FieldManager, 1, "k")), record.Stamp{}.Merge(labels{"k": "v"}, record.Record{}, 8)),
			want: []string{`1: 0s ago "" {"k":{"from":"v"}}`},
		},
		"a taint is added: by the last writer of the list": {
			prev: remembering("a", 5, labels{"k": "v"}),
			node: object("a", 6, labels{"k": "v", "maintenance:NoExecute": "disk"}, wrote("kubectl-taint", 4, "taints")),
			want: []string{`1: 4m0s ago "kubectl-taint" [{"key":"maintenance","effect":"NoExecute","to":"disk"}]`},
		},
		"a taint is removed, another is left: by who wrote the list last": {
			prev: remembering("a", 5, labels{"x:NoSchedule": "", "y:NoSchedule": ""}),
			node: object("a", 6, labels{"y:NoSchedule": ""}, wrote("kubectl-taint", 4, "taints")),
			want: []string{`1: 4m0s ago "kubectl-taint" [{"key":"x","effect":"NoSchedule","from":""}]`},
		},
		"the last taint is removed: nobody owns the list": {
			prev: remembering("a", 5, labels{"x:NoSchedule": ""}),
			node: object("a", 6, nil),
			want: []string{`1: 0s ago "" [{"key":"x","effect":"NoSchedule","from":""}]`},
		},
		"a controller wrote the list of taints last: it may have been for another taint": {
			prev: remembering("a", 5, nil),
			node: object("a", 6, labels{"x:NoSchedule": "", "node.kubernetes.io/not-ready:NoExecute": ""}, wrote("kube-controller-manager", 1, "taints")),
			want: []string{`1: 0s ago "" [{"key":"x","effect":"NoSchedule","to":""}]`},
		},
		"nodekeep wrote the list of taints last: it was for another taint": {
			prev: remembering("a", 5, nil),
			node: object("a", 6, labels{"x:NoSchedule": ""}, wrote(FieldManager, 1, "taints")),
			want: []string{`1: 0s ago "" [{"key":"x","effect":"NoSchedule","to":""}]`},
		},
		"a taint that a client had removed is added again as nodekeep had set it": {
			prev: record.Forget(remembering("a", 5, labels{"x:NoSchedule": "1"}), []string{"x:NoSchedule"}),
			node: stamped(object("a", 6, labels{"x:NoSchedule": "1"}, wrote("kubectl-taint", 1, "taints")), given(labels{"x:NoSchedule": "1"})),
			want: []string{`1: 1m0s ago "kubectl-taint" [{"key":"x","effect":"NoSchedule","to":"1"}]`},
		},
		"an older object is observed late": {
			prev: remembering("b", 9, labels{"k": "v"}),
			node: object("a", 5, labels{"k": "w", "l": "1"}, wrote("ansible", 20, "k", "l")),
			want: []string{`1: 20m0s ago "ansible" {"l":{"to":"1"}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for form, n := range inMemory(c.node) {
				next := merged(t, c.prev, n, loaded(t, c.policy))
				assert.Equal(t, append([]string{}, c.want...), lines(history.Changes(next)), form)
				assert.Equal(t, history.Changes(next), history.Changes(merged(t, next, n, loaded(t, c.policy))), "%s: observed twice, it has one entry", form)
			}
		})
	}
}

func TestARecordThatWasReadWithoutItsHistoryIsMergedTheSame(t *testing.T) {
	whole := withHistory(remembering("a", 5, labels{"k": "v"}), 7)
	omitted := whole
	omitted.History, omitted.HistoryOmitted = nil, true
	n := FromNode(object("a", 6, labels{"k": "w"}))
	right, match := merged(t, whole, n, loaded(t, "")), merged(t, omitted, n, loaded(t, ""))
	assert.True(t, match.HistoryOmitted)
	match.HistoryOmitted, match.History = false, right.History
	assert.Equal(t, right, match)
}
