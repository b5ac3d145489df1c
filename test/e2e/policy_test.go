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

	require.NoError(t, nodekeep.WritePolicy("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {ignore: [b], protected: never}\n"))
	defer func() { require.NoError(t, nodekeep.WritePolicy(string(shipped))) }()
	require.Eventually(t, func() bool {
		record, _ := recordOf(t, name)
		return record.Withheld.Items["b"] == "2"
	}, settles, 100*time.Millisecond, "capture follows: the label is kept no more, but not forgotten")
	time.Sleep(6 * time.Second) // the webhook looks at the file every 5 s
	deleteNode(t, name)
	back := register(t, name)
	assert.Equal(t, "1", back.Labels["a"])
	assert.NotContains(t, back.Labels, "b")
	assert.NotContains(t, back.Labels, worker)
	record := remembers(t, back, map[string]string{"a": "1"})
	assert.Equal(t, map[string]string{"b": "2", worker: ""}, record.Withheld.Items)

	require.NoError(t, nodekeep.WritePolicy("labels: {keep: nothing"))
	time.Sleep(6 * time.Second)
	label(t, name, map[string]any{"c": "3"})
	remembers(t, back, map[string]string{"a": "1", "c": "3"}) // the last good policy is in force

	require.NoError(t, nodekeep.WritePolicy(string(shipped)))
	time.Sleep(6 * time.Second)
	deleteNode(t, name)
	register(t, name)
	complete(t, name, map[string]string{"a": "1", "b": "2", "c": "3", worker: ""})
}
