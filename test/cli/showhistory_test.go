package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// changed edits a Node by kubectl in a user's name and waits for that change in its history.
func changed(t *testing.T, name string, number int, args ...string) {
	t.Helper()
	nodekeep.MustKubectl(t, args...)
	eventually(t, name, func(r record.Record) bool {
		return len(history.Changes(r)) > 0 && history.Changes(r)[len(history.Changes(r))-1].Number == number
	})
}

// withHistory makes a Node with four changes. Of the last nobody knows who made it: a label was removed.
func withHistory(t *testing.T, name string) {
	t.Helper()
	register(t, name)
	edit(t, name, map[string]string{"team": "a"})
	changed(t, name, 1, "label", "node", name, "dedicated=ci", "--field-manager=alice")
	changed(t, name, 2, "taint", "node", name, "maintenance=disk:NoSchedule", "--field-manager=bob")
	changed(t, name, 3, "label", "node", name, "dedicated=batch", "extra=yes", "--overwrite", "--field-manager=carol")
	changed(t, name, 4, "label", "node", name, "team-", "--field-manager=dave")
}

// labelsOf returns the labels of a Node that operators have set, and its taints that are not the cluster's.
func labelsOf(t *testing.T, name string) map[string]string {
	t.Helper()
	node, items := nodekeep.Node(t, name), map[string]string{}
	for key, value := range node.Labels {
		if !strings.HasPrefix(key, "kubernetes.io/") {
			items[key] = value
		}
	}
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			items[taint.Key+":"+string(taint.Effect)] = taint.Value
		}
	}
	return items
}

func TestHistoryShowsWhoChangedWhatAndRollbackUndoesIt(t *testing.T) {
	const name = "history-1"
	withHistory(t, name)
	requireGolden(t, "show-history", run(t, "show", name, "--history").RequireDone(t).Out)
	prev := labelsOf(t, name)

	dry := run(t, "rollback", name, "--to", "1", "--dry-run")
	assert.Equal(t, 0, dry.Code, dry.ErrOut)
	requireGolden(t, "rollback", dry.Out)
	assert.Contains(t, dry.ErrOut, "Nothing was changed (dry run).")
	assert.Equal(t, prev, labelsOf(t, name), "a dry run changes nothing")

	for _, answer := range []string{"", "\n", "n\n", "yeah\n"} {
		a := answering(t, answer, "rollback", name, "--to", "1")
		assert.Equal(t, 3, a.Code)
		assert.Contains(t, a.ErrOut, "nothing was changed")
	}
	assert.Equal(t, prev, labelsOf(t, name))

	a := answering(t, "y\n", "rollback", name, "--to", "1")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Equal(t, map[string]string{"team": "a", "dedicated": "ci"}, labelsOf(t, name))
	eventually(t, name, func(r record.Record) bool { return r.Items()["dedicated"] == "ci" && r.Items()["team"] == "a" })
	assert.Contains(t, run(t, "show", name, "--history").RequireDone(t).Out, "nodekeep-rollback", "a rollback is a change like any other")

	last := run(t, "show", name, "--history", "-o", "jsonpath={.changes[-1:].number}").RequireDone(t).Out
	ends(t, 0, "nothing is to be done", "rollback", name, "--to", last, "--yes")

	require.Equal(t, 0, run(t, "rollback", name, "--to", "4", "--yes").Code)
	assert.Equal(t, prev, labelsOf(t, name), "and can itself be undone")
}

func TestRollbackSaysWhatItCannotDoAndLeavesAloneWhatBelongsToOthers(t *testing.T) {
	withHistory(t, "history-3")
	ends(t, 3, "entries 0 to 4", "rollback", "history-3", "--to", "9", "--yes")
	a := ends(t, 1, "1 value of Node history-3 left alone", "rollback", "history-3", "--to", "0", "--yes", "--policy", policyFile(t, "labels: {ignore: [dedicated]}"))
	assert.Contains(t, a.Out, "labels.ignore has dedicated")
	assert.Equal(t, map[string]string{"team": "a", "dedicated": "batch"}, labelsOf(t, "history-3"))
	remove(t, "history-3")
	ends(t, 3, `no Node "history-3" any more`, "rollback", "history-3", "--to", "1", "--yes")
	assert.Contains(t, run(t, "show", "history-3", "--history").RequireDone(t).Out, "alice", "the history of a deleted Node can still be read")
}
