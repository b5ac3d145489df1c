package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePolicyIsFollowedWhileTheProcessesRun(t *testing.T) {
	shipped, err := os.ReadFile(nodekeep.PolicyFile)
	require.NoError(t, err)
	const name = "policy-1"
	rememberedNode(t, name, map[string]string{"a": "1", "b": "2", worker: ""})

	writePolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {ignore: [b], protected: never}\n")
	defer writePolicy(t, string(shipped))
	require.Eventually(t, func() bool {
		record, _ := recordOf(t, name)
		return record.Withheld.Items["b"] == "2"
	}, settles, 100*time.Millisecond, "capture follows: the label is kept no more, but not forgotten")
	deleteNode(t, name)
	back := register(t, name)
	assert.Equal(t, "1", back.Labels["a"])
	assert.NotContains(t, back.Labels, "b")
	assert.NotContains(t, back.Labels, worker)
	record := remembers(t, back, map[string]string{"a": "1"})
	assert.Equal(t, map[string]string{"b": "2", worker: ""}, record.Withheld.Items)

	writePolicy(t, "labels: {keep: nothing")
	label(t, name, map[string]any{"c": "3"})
	remembers(t, back, map[string]string{"a": "1", "c": "3"}) // the last good policy is in force

	writePolicy(t, string(shipped))
	deleteNode(t, name)
	register(t, name)
	complete(t, name, map[string]string{"a": "1", "b": "2", "c": "3", worker: ""})
}
