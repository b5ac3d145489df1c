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
	assert.False(t, policy.DefaultGate.On(first.Spec.Taints), "a new Node with nothing to restore carries no gate")
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci", "example.com/rack": "r7"})
	want := map[string]string{"dedicated": "ci", "example.com/rack": "r7"}
	nodekeep.WaitRecorded(t, first, want)
	nodekeep.DeleteNode(t, name)

	back := nodekeep.Register(t, name)
	assert.NotEqual(t, first.UID, back.UID)
	assert.True(t, harness.HasAll(back.Labels, want), "labels in the CREATE's answer: %v", back.Labels)
	assert.False(t, policy.DefaultGate.On(back.Spec.Taints))
	assert.ElementsMatch(t, []string{"dedicated", "example.com/rack"}, givenTo(t, back))
	nodekeep.WaitRecorded(t, back, want)
}

func TestProtectedLabelsFollowBehindTheGate(t *testing.T) {
	const name = "protected-1"
	first := nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci", worker: ""})
	want := map[string]string{"dedicated": "ci", worker: ""}
	nodekeep.WaitRecorded(t, first, want)
	nodekeep.DeleteNode(t, name)

	nodekeep.WithoutCapture(t, func() { // the gate waits for it
		back := nodekeep.Register(t, name)
		assert.Equal(t, "ci", back.Labels["dedicated"])
		assert.NotContains(t, back.Labels, worker, "NodeRestriction would have rejected it")
		assert.True(t, policy.DefaultGate.Holds(back.Spec.Taints), "the gate is in the CREATE's answer")
		assert.NotContains(t, givenTo(t, back), worker)
	})

	done := nodekeep.WaitRestored(t, name, want)
	assert.ElementsMatch(t, []string{"dedicated", worker}, givenTo(t, done))
	nodekeep.WaitRecorded(t, done, want)
}
