package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestLabelsAreInTheVeryObjectThatTheKubeletsCreateReturns(t *testing.T) {
	const name = "plain-1"
	first := nodekeep.Register(t, name)
	assert.False(t, policy.DefaultGate.Present(first.Spec.Taints), "a new Node with nothing to restore carries no gate")
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci", "example.com/rack": "r7"})
	want := map[string]string{"dedicated": "ci", "example.com/rack": "r7"}
	nodekeep.WaitRecorded(t, first, want)
	nodekeep.DeleteNode(t, name)

	returned := nodekeep.Register(t, name)
	assert.NotEqual(t, first.UID, returned.UID)
	assert.True(t, harness.HasAll(returned.Labels, want), "labels in the CREATE's answer: %v", returned.Labels)
	assert.False(t, policy.DefaultGate.Present(returned.Spec.Taints))
	assert.ElementsMatch(t, []string{"dedicated", "example.com/rack"}, givenTo(t, returned))
	nodekeep.WaitRecorded(t, returned, want)
}

func TestProtectedLabelsFollowBehindTheGate(t *testing.T) {
	const name = "protected-1"
	first := nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci", worker: ""})
	want := map[string]string{"dedicated": "ci", worker: ""}
	nodekeep.WaitRecorded(t, first, want)
	nodekeep.DeleteNode(t, name)

	nodekeep.WithoutCapture(t, func() { // the gate waits for it
		returned := nodekeep.Register(t, name)
		assert.Equal(t, "ci", returned.Labels["dedicated"])
		assert.NotContains(t, returned.Labels, worker, "NodeRestriction would have rejected it")
		assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints), "the gate is in the CREATE's answer")
		assert.NotContains(t, givenTo(t, returned), worker)
	})

	done := nodekeep.WaitRestored(t, name, want)
	assert.ElementsMatch(t, []string{"dedicated", worker}, givenTo(t, done))
	nodekeep.WaitRecorded(t, done, want)
}
