package governance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// heartbeat is what a kubelet reports every few seconds.
const heartbeat = `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"test"}]}}`

func TestTheAPIServerRefusesTheRemovalOfARequiredLabelAndNothingElse(t *testing.T) {
	nodekeep.RegisterNode(t, harness.RegistrationWith("has-type", map[string]string{"node-type": "gpu"}))
	govern(t, policytest.Manifest("governance: {keys: [{key: node-type, required: true, mode: deny}]}\n"))
	refused := func(name string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			out, err := nodekeep.Kubectl(t.Context(), "label", "node", name, "node-type-", "--dry-run=server")
			assert.Error(c, err)
			assert.Contains(c, out, "label node-type is required, and cannot be removed")
		}, harness.Settles, 50*time.Millisecond)
	}
	refused("has-type")
	_, err := nodekeep.Kubectl(t.Context(), "label", "node", "has-type", "node-type-")
	require.Error(t, err)
	assert.Equal(t, "gpu", nodekeep.Node(t, "has-type").Labels["node-type"])
	nodekeep.MustKubectl(t, "label", "node", "has-type", "node-type=cpu", "--overwrite")

	// A Node that lacks the label registers, reports and is repaired.
	nodekeep.RegisterNode(t, harness.RegistrationWith("lacks-type", map[string]string{}))
	for _, name := range []string{"has-type", "lacks-type"} {
		kubelet, _ := client(t, "kubelet", name)
		_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(heartbeat), metav1.PatchOptions{}, "status")
		require.NoError(t, err, name)
		_, err = kubelet.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"reported":"x"}}}`), metav1.PatchOptions{})
		require.NoError(t, err, name)
		for _, change := range [][]string{{"label", "node", name, "note=x"}, {"annotate", "node", name, "note=x"}, {"taint", "node", name, "note=x:NoSchedule"}, {"cordon", name}, {"uncordon", name}} {
			nodekeep.MustKubectl(t, change...)
		}
	}
	nodekeep.MustKubectl(t, "label", "node", "lacks-type", "node-type-") // it removes nothing
	nodekeep.MustKubectl(t, "label", "node", "lacks-type", "node-type=gpu")
	refused("lacks-type")
	nodekeep.MustKubectl(t, "delete", "node", "lacks-type")
}
