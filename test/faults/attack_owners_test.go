package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forgeOwners has a kubelet say that a component which sets labels again by itself has set this one: by managedFields, which a kubelet
// may replace, and by an ownership annotation.
func forgeOwners(t testing.TB, name, key string) {
	t.Helper()
	body := mustJSON(t, map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"cluster.x-k8s.io/labels-from-machine": key},
		"managedFields": []map[string]any{{
			"manager": "cloud-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
			"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + key: map[string]any{}}}},
		}},
	}})
	node, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubelet"})
	require.NoError(t, err)
	require.Equal(t, "cloud-controller-manager", node.ManagedFields[0].Manager, "the API server takes it")
}

func TestAKubeletThatForgesOwnersKeepsNoEditOfItsProtectedLabelFromTheRecord(t *testing.T) {
	const name, key = "attack-owners", worker
	node := remembered(t, name, map[string]string{key: "a"})
	withoutCapture(t, func() {
		label(t, name, map[string]string{key: "b"})
		forgeOwners(t, name, key)
	})
	remembers(t, node, map[string]string{key: "b"})

	withoutCapture(t, func() {
		unlabel(t, name, key)
		forgeOwners(t, name, key)
	})
	remembers(t, node, map[string]string{})
	deleteNode(t, name)
	assert.NotContains(t, register(t, name).Labels, key)
	complete(t, name, nil)
	assert.NotContains(t, getNode(t, name).Labels, key)
}
