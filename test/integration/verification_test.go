package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/test/harness"
	verification "nodekeep.dev/nodekeep/verify"
)

const verifyingPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  verify:
    label: example.com/checked
    profiles:
    - name: infra
      nodeSelector: node-role.kubernetes.io/worker
      taint: example.com/unchecked=yes:NoSchedule
      checks: [{name: api, api: {}}]
`

const unchecked = "example.com/unchecked=yes:NoSchedule"

// passes does what the controller does with a Node whose checks passed.
func passes(t *testing.T, name string) {
	t.Helper()
	var node *corev1.Node
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) { // nodekeep writes the Node, too
		node = nodekeep.Node(t, name)
		body := harness.MustJSON(t, map[string]any{
			"metadata": map[string]any{
				"uid": node.UID, "resourceVersion": node.ResourceVersion,
				"labels": map[string]string{"example.com/checked": "true"}, "annotations": map[string]string{verification.Annotation: verification.Progress{Round: 1}.String()},
			},
			"spec": map[string]any{"taints": harness.WithoutTaint(node.Spec.Taints, unchecked)},
		})
		node, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: verification.Manager})
		return err
	}))
	require.False(t, harness.Carries(node, unchecked))
}

// requireNotRecorded waits until the record has a later edit, and looks for what verification has set.
func requireNotRecorded(t *testing.T, name, edit string) {
	t.Helper()
	nodekeep.Label(t, name, map[string]string{"edited": edit})
	recorded := nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"edited": edit, harness.Worker: ""})
	for key := range recorded.Items() {
		assert.NotContains(t, key, "example.com/", "verification's label and taint are the state of one Node object")
	}
}

// The label that selects the profile is one that no kubelet may set: it waits behind the gate, and the taint is there all the same.
func TestANodeHasTheTaintOfItsProfileBeforeAWorkloadCanUseItWithTheWebhookUpOrDown(t *testing.T) {
	const name = "verified-once"
	withPolicy(t, verifyingPolicy, func() {
		nodekeep.RegisterRecorded(t, name, map[string]string{harness.Worker: ""})
		for round, register := range map[string]func() *corev1.Node{
			"webhook up": func() *corev1.Node {
				created := nodekeep.Register(t, name)
				assert.True(t, harness.Carries(created, unchecked), "it is in the CREATE")
				return created
			},
			"webhook down": func() (created *corev1.Node) {
				nodekeep.WithoutWebhook(t, func() {
					created = nodekeep.Register(t, name)
					assert.False(t, harness.Carries(created, unchecked))
					nodekeep.WaitRestored(t, name, map[string]string{harness.Worker: ""})
				})
				return created
			},
		} {
			t.Run(round, func(t *testing.T) {
				nodekeep.DeleteNode(t, name)
				watched := nodekeep.WatchNodes(t)
				created := register()
				nodekeep.WaitRestored(t, name, map[string]string{harness.Worker: ""})
				watched.Stop()
				for _, state := range watched.States(name) {
					if state.UID == created.UID {
						assert.True(t, harness.Gated(state.Node) || harness.Carries(state.Node, unchecked), "no moment without gate and taint")
						assert.NotContains(t, state.Labels, "example.com/checked")
					}
				}

				passes(t, name)
				requireNotRecorded(t, name, "verified")
				nodekeep.WithoutCapture(t, func() {})
				requireNotRecorded(t, name, "restarted")
				assert.False(t, harness.Carries(nodekeep.Node(t, name), unchecked), "the taint is added once")
				assert.Equal(t, "true", nodekeep.Node(t, name).Labels["example.com/checked"])
			})
		}
	})
}

// While the processes run they know the keys of the policy before. The label has a field manager, so it is known after a restart, too.
func TestAPolicyWithOtherKeysDoesNotMakeThoseOfVerificationAnOperators(t *testing.T) {
	const name = "verified-before"
	withPolicy(t, verifyingPolicy, func() {
		nodekeep.RegisterRecorded(t, name, map[string]string{harness.Worker: ""})
		nodekeep.Taint(t, name, unchecked)
		withPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n", func() {
			requireNotRecorded(t, name, "without-profiles")
		})
		passes(t, name)
		withPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n", func() {
			nodekeep.WithoutCapture(t, func() {})
			requireNotRecorded(t, name, "restarted-without-profiles")
			nodekeep.DeleteNode(t, name)
			returned := nodekeep.Register(t, name)
			assert.NotContains(t, returned.Labels, "example.com/checked")
			assert.False(t, harness.Carries(returned, unchecked))
		})
	})
}
