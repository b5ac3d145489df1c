package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestThePolicyIsFollowedWhileTheProcessesRun(t *testing.T) {
	shipped := nodekeep.Policy(t)
	const name = "policy-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1", "b": "2", worker: ""})

	nodekeep.SetPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  labels: {ignore: [b], protected: never}\n")
	defer nodekeep.SetPolicy(t, shipped)
	edit, kept := "1", "2"
	harness.Eventually(t, func() bool {
		edit += "1"
		nodekeep.Label(t, name, map[string]any{"a": edit, "b": edit})
		record := remembersLabel(t, name, "a", edit)
		if record.Items()["b"] == edit {
			kept = edit
		}
		return kept != edit
	}, settles, 100*time.Millisecond, "capture follows: the label is not recorded any more, but not forgotten")
	nodekeep.DeleteNode(t, name)
	returned := nodekeep.Register(t, name)
	assert.Equal(t, edit, returned.Labels["a"])
	assert.NotContains(t, returned.Labels, "b")
	assert.NotContains(t, returned.Labels, worker)
	nodekeep.WaitRecorded(t, returned, map[string]string{"a": edit, "b": kept, worker: ""})

	nodekeep.ForcePolicy(t, policytest.Manifest("labels: {keep: [a b]}"))
	nodekeep.Label(t, name, map[string]any{"c": "3"})
	nodekeep.WaitRecorded(t, returned, map[string]string{"a": edit, "b": kept, worker: "", "c": "3"}) // the last good policy is in force

	nodekeep.SetPolicy(t, shipped)
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	nodekeep.WaitRestored(t, name, map[string]string{"a": edit, "b": kept, "c": "3", worker: ""})
}

// remembersLabel waits until the record of a Node holds a label.
func remembersLabel(t *testing.T, name, key, value string) (found record.Record) {
	t.Helper()
	harness.Eventually(t, func() bool { found, _ = nodekeep.Record(t, name); return found.Items()[key] == value }, settles, 10*time.Millisecond)
	return found
}
