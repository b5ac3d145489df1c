package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// Without this admission plugin a Node is created without any taint. The API server (1.36) panics where a JSON patch has a list of typed objects.
func TestTheGateIsAddedToANodeThatIsCreatedWithoutAnyTaint(t *testing.T) {
	control, err := harness.StartCluster(t.Context(), harness.Options{APIServerArgs: []string{"--disable-admission-plugins=TaintNodesByCondition"}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, control.Stop()) })
	bare, err := harness.Install(t.Context(), control)
	require.NoError(t, err)
	bare.WaitGating(t, true)
	node := bare.Register(t, "bare")
	assert.Len(t, node.Spec.Taints, 1)
	assert.True(t, harness.Carries(node, gate))
}
