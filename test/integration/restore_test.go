package integration

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
)

func mustJSON(t testing.TB, value any) []byte {
	t.Helper()
	body, err := json.Marshal(value)
	require.NoError(t, err)
	return body
}

func TestLabelsAreInTheVeryObjectThatTheKubeletsCreateReturns(t *testing.T) {
	const name = "plain-1"
	first := register(t, name)
	assert.False(t, policy.DefaultGate.On(first.Spec.Taints), "a new Node with nothing to restore carries no gate")
	label(t, name, map[string]any{"dedicated": "ci", "example.com/rack": "r7"})
	want := map[string]string{"dedicated": "ci", "example.com/rack": "r7"}
	remembers(t, first, want)
	deleteNode(t, name)

	back := register(t, name)
	assert.NotEqual(t, first.UID, back.UID)
	assert.True(t, hasAll(back.Labels, want), "labels in the CREATE's answer: %v", back.Labels)
	assert.False(t, policy.DefaultGate.On(back.Spec.Taints))
	assert.ElementsMatch(t, []string{"dedicated", "example.com/rack"}, givenTo(t, back))
	remembers(t, back, want)
}

func TestProtectedLabelsFollowBehindTheGate(t *testing.T) {
	const name = "protected-1"
	first := register(t, name)
	label(t, name, map[string]any{"dedicated": "ci", worker: ""})
	want := map[string]string{"dedicated": "ci", worker: ""}
	remembers(t, first, want)
	deleteNode(t, name)

	back := register(t, name)
	assert.Equal(t, "ci", back.Labels["dedicated"])
	assert.NotContains(t, back.Labels, worker, "NodeRestriction would have rejected it")
	assert.True(t, policy.DefaultGate.Holds(back.Spec.Taints), "the gate is in the CREATE's answer")
	assert.NotContains(t, givenTo(t, back), worker)

	done := complete(t, name, want)
	assert.ElementsMatch(t, []string{"dedicated", worker}, givenTo(t, done))
	remembers(t, done, want)
}
