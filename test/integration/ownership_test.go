package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// createAsKubelet registers a Node whose kubelet is configured with --node-labels.
func createAsKubelet(t *testing.T, name string, nodeLabels map[string]string) map[string]string {
	t.Helper()
	return nodekeep.RegisterNode(t, harness.RegistrationWith(name, nodeLabels)).Labels
}

func TestALabelThatOnlyTheKubeletSetsIsNotRemembered(t *testing.T) {
	const name = "owned-1"
	createAsKubelet(t, name, map[string]string{"example.com/pool": "a"})
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"dedicated": "ci"})
	nodekeep.DeleteNode(t, name)
	returned := createAsKubelet(t, name, nil) // it left the kubelet's configuration
	assert.NotContains(t, returned, "example.com/pool", "a label that its owner has dropped must not rise again")
}

func TestALabelOfTheKubeletThatAnOperatorChangedIsRecorded(t *testing.T) {
	const name = "owned-2"
	createAsKubelet(t, name, map[string]string{"example.com/pool": "a"})
	nodekeep.Label(t, name, map[string]any{"example.com/pool": "b"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"example.com/pool": "b"})
	nodekeep.DeleteNode(t, name)

	returned := createAsKubelet(t, name, map[string]string{"example.com/pool": "a"})
	assert.Equal(t, "a", returned["example.com/pool"], "what the Node brings wins")
	recordComes(t, name, func(r record.Record) bool { // and the operator's value stays remembered
		return r.Newest().UID == nodekeep.Node(t, name).UID && r.Items()["example.com/pool"] == "b"
	})

	nodekeep.DeleteNode(t, name)
	assert.Equal(t, "b", createAsKubelet(t, name, nil)["example.com/pool"], "the kubelet dropped it: the operator's value is restored")
}
