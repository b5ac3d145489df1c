package integration

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/test/harness"
)

// tells waits until the history of a Node's record has that many entries in all, dropped ones included, and returns it.
func tells(t *testing.T, node string, changes int) (known []history.Change) {
	t.Helper()
	recordComes(t, node, func(r record.Record) bool {
		known = history.Changes(r)
		return len(known) > 0 && known[len(known)-1].Number >= changes
	})
	require.Equal(t, changes, known[len(known)-1].Number, "%+v", known)
	return known
}

// lastChange returns the newest entry as it is stored, without its number and time.
func lastChange(t *testing.T, known []history.Change) string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(harness.MustJSON(t, known[len(known)-1]), &fields))
	delete(fields, "number")
	delete(fields, "time")
	return string(harness.MustJSON(t, fields))
}

// wroteAt returns when a manager last changed something on a Node, by its managedFields.
func wroteAt(t *testing.T, node, manager string) metav1.Time {
	t.Helper()
	for _, entry := range nodekeep.Node(t, node).ManagedFields {
		if entry.Manager == manager && entry.Subresource == "" {
			return *entry.Time
		}
	}
	require.Fail(t, "no such manager", "%s on %s", manager, node)
	return metav1.Time{}
}

func TestTheHistoryShowsWhoChangedWhatAndWhen(t *testing.T) {
	const name = "history-1"
	node := nodekeep.Register(t, name)
	nodekeep.MustKubectl(t, "label", "node", name, "dedicated=ci", "--field-manager=alice")
	assert.Empty(t, history.Changes(nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci"})), "the first record has no change")

	steps := []struct {
		name    string
		run     func()
		manager string
		want    string
	}{
		{"a label is changed", func() {
			nodekeep.MustKubectl(t, "label", "node", name, "--overwrite", "dedicated=gpu", "--field-manager=bob")
		}, "bob", `{"actor": "bob", "labels": {"dedicated": {"from": "ci", "to": "gpu"}}}`},
		{"two labels come", func() {
			nodekeep.MustKubectl(t, "label", "node", name, "example.com/rack=r7", worker+"=", "--field-manager=alice")
		}, "alice", `{"actor": "alice", "labels": {"example.com/rack": {"to": "r7"}, "` + worker + `": {"to": ""}}}`},
		{"a label is applied", func() {
			apply(t, name, "gitops", map[string]string{"team": "x"})
		}, "gitops", `{"actor": "gitops", "labels": {"team": {"to": "x"}}}`},
		{"a taint is added", func() {
			nodekeep.MustKubectl(t, "taint", "node", name, "maintenance=disk:NoSchedule", "other=1:NoExecute", "--field-manager=carol")
		}, "carol", `{"actor": "carol", "taints": [{"key": "maintenance", "effect": "NoSchedule", "to": "disk"}, {"key": "other", "effect": "NoExecute", "to": "1"}]}`},
		{"a label is removed, of which nothing is left in managedFields", func() {
			nodekeep.MustKubectl(t, "label", "node", name, "example.com/rack-", "--field-manager=alice")
		}, "", `{"labels": {"example.com/rack": {"from": "r7"}}}`},
		{"a label is not applied any more", func() {
			apply(t, name, "gitops", nil)
		}, "", `{"labels": {"team": {"from": "x"}}}`},
	}
	for n, step := range steps {
		if n == len(steps)/2 { // the next leader continues where this one ended
			nodekeep.WithoutCapture(t, func() {})
		}
		began := time.Now().Add(-time.Second)
		step.run()
		known := tells(t, name, n+1)
		assert.JSONEq(t, step.want, lastChange(t, known), step.name)
		stamp := known[n].Time
		if step.manager != "" {
			want := wroteAt(t, name, step.manager)
			assert.True(t, want.Equal(&stamp), "%s: at %s, told as %s", step.name, want, stamp)
		}
		assert.WithinRange(t, stamp.Time, began.Truncate(time.Second), time.Now(), step.name)
	}

	head := nodekeep.RecordMap(t, name).ResourceVersion
	first, _ := nodekeep.Record(t, name)
	beats(t, name, 5)
	nodekeep.MustKubectl(t, "annotate", "node", name, "note=mine")
	nodekeep.DeleteNode(t, name) // is written down, and told of by nobody
	nodekeep.Register(t, name)
	nodekeep.WaitRestored(t, name, map[string]string{"dedicated": "gpu", worker: ""})
	comesToCarry(t, name, "maintenance=disk:NoSchedule", "other=1:NoExecute")
	reread := recordComes(t, name, func(r record.Record) bool {
		return r.Newest().UID == nodekeep.Node(t, name).UID && r.DeletedAt.IsZero()
	})
	assert.NotEqual(t, head, nodekeep.RecordMap(t, name).ResourceVersion)
	assert.Equal(t, history.Changes(first), history.Changes(reread), "a Node that registers as it was has not changed")

	for to, want := range map[int]string{
		0: `{"dedicated": "ci", "example.com/rack": null, "` + worker + `": null, "team": null, "maintenance:NoSchedule": null, "other:NoExecute": null}`,
		4: `{"example.com/rack": "r7", "team": "x"}`,
		6: `{}`,
	} {
		items, err := history.RollBack(reread, to)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(harness.MustJSON(t, items)), "rolled back to %d", to)
	}
}

// apply has a manager apply all labels that it wants on a Node, server-side.
func apply(t *testing.T, name, manager string, labels map[string]string) {
	t.Helper()
	body := harness.MustJSON(t, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": labels}})
	_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager})
	require.NoError(t, err)
}

func TestAChangeThatOnlyTheDeletionShowsIsInTheHistory(t *testing.T) {
	const name = "history-3"
	nodekeep.RegisterRecorded(t, name, map[string]string{"edited": "before", "removed": "1"})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.Label(t, name, map[string]any{"edited": "after", "removed": nil})
		nodekeep.DeleteNode(t, name)
		reported := map[string]string{}
		for _, change := range tells(t, name, 2) {
			reported[change.Actor] = string(harness.MustJSON(t, change.Items))
		}
		assert.Len(t, reported, 2)
		assert.JSONEq(t, `{"edited": {"from": "before", "to": "after"}}`, reported["kubectl-label"])
		assert.JSONEq(t, `{"removed": {"from": "1"}}`, reported[""])
	})
	prev, _ := nodekeep.Record(t, name)
	next := nodekeep.WaitDeletionRecorded(t, name)
	assert.Equal(t, history.Changes(prev), history.Changes(next), "capture, which sees the same, does not tell it again")
}
