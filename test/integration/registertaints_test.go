package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/harness"
)

// taintOwners returns the field managers that managedFields name for the list of taints.
func taintOwners(node *corev1.Node) (managers []string) {
	for _, entry := range node.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:taints"`) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// managedFields name who wrote the list of taints last, not who added which taint. A kubelet loses the list to the first controller
// that adds or removes a taint, which happens on every Node that becomes ready. So a taint of --register-with-taints cannot be told
// from a taint that an operator added, and is recorded: docs/platforms.md says so, and names taints.ignore.
func TestATaintThatAKubeletRegistersWithIsRecordedUnlessThePolicyIgnoresIt(t *testing.T) {
	const name, current = "registers-with-taints", "example.com/burnin:NoSchedule"
	node := nodekeep.RegisterNode(t, tainted(name, current))
	assert.Equal(t, []string{"kubelet"}, taintOwners(node), "a webhook's additions to the list count as the kubelet's too")

	// kube-controller-manager adds and removes taints of the node lifecycle.
	body := harness.MustJSON(t, map[string]any{"spec": map[string]any{"taints": append(slices.Clone(node.Spec.Taints), harness.TaintOf("node.kubernetes.io/unreachable:NoSchedule"))}})
	node, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kube-controller-manager"})
	require.NoError(t, err)
	assert.Equal(t, []string{"kube-controller-manager"}, taintOwners(node), "from now on nobody can tell whose the taint is")
	nodekeep.WaitRecorded(t, node, map[string]string{current: ""})

	nodekeep.DeleteNode(t, name)
	returned := nodekeep.Register(t, name)
	assert.True(t, harness.Carries(returned, current), "the record keeps the taint of a kubelet that no longer registers with it")

	withPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  taints: {ignore: [example.com/burnin]}\n", func() {
		nodekeep.DeleteNode(t, name)
		assert.True(t, harness.Carries(nodekeep.RegisterNode(t, tainted(name, current)), current), "the kubelet's own taint stays")
		nodekeep.DeleteNode(t, name)
		assert.False(t, harness.Carries(nodekeep.Register(t, name), current), "taints.ignore leaves the taint to the kubelet")
	})
}
