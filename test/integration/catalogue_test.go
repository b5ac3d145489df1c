package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// Repair, readiness and topology tools say by labels and taints what they found out about one machine. A machine that registers must not
// inherit it.
func TestWhatToolsSayOfOneMachineIsNotRemembered(t *testing.T) {
	const name = "catalogue-1"
	found := map[string]any{
		"k8saas.nvidia.com/cordon-by": "NVSentinel", "k8saas.nvidia.com/cordon-reason": "xid", "nodewright.nvidia.com/status_gpu": "complete",
		"fabric.topograph.run/tier-0": "lldp-001122334455", "accelerator.topograph.run/domain": "d1", "kubevirt.io/schedulable": "true",
		"cpu-feature.node.kubevirt.io/vmx": "true", "nvidia.com/gpu-driver-upgrade-state": "upgrade-required",
	}
	nodekeep.Register(t, name)
	nodekeep.Label(t, name, found)
	nodekeep.Taint(t, name, "AggregatedNodeHealth=False:NoSchedule", "nodewright.nvidia.com=runtime-required:NoSchedule", "readiness.k8s.io/network=pending:NoSchedule",
		"ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule", "karpenter.sh/disrupted:NoSchedule", "nodekeep.dev/other:NoSchedule",
		"node.kubernetes.io/unschedulable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute", "own=1:NoSchedule")
	nodekeep.Label(t, name, map[string]any{"rack": "r1"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"rack": "r1", "own:NoSchedule": "1"})

	nodekeep.DeleteNode(t, name)
	returned := nodekeep.Register(t, name)
	for key := range found {
		assert.NotContains(t, returned.Labels, key)
	}
	assert.Equal(t, []string{"own=1:NoSchedule"}, harness.TaintsOf(returned))
	for _, owned := range []string{"node.kubernetes.io/unschedulable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"} {
		assert.False(t, harness.Carries(returned, owned), owned)
	}
}

const (
	zone = corev1.LabelTopologyZone      // a kubelet may set it
	part = "app.kubernetes.io/part-of"   // no kubelet may
	pool = "eks.amazonaws.com/nodegroup" // under no domain of Kubernetes
	cpus = "nvidia.com/gpu.product"      // of a vendor
)

// setAs changes labels of a Node as a client whose field manager has that name.
func setAs(t *testing.T, client *kubernetes.Clientset, name, manager string, labels map[string]any) {
	t.Helper()
	body := harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": labels}})
	_, err := client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	require.NoError(t, err)
}

func TestWhatOnlyOperatorsSetIsRecordedThoughTheCatalogueNamesIt(t *testing.T) {
	const name = "evidence-1"
	nodekeep.Register(t, name)
	all := map[string]string{zone: "row-1", part: "edge", pool: "metal", cpus: "own"}
	nodekeep.Label(t, name, all)
	nodekeep.Label(t, name, map[string]any{corev1.LabelArchStable: "arm64", "node-ready/verified": "true"})
	node := nodekeep.Node(t, name)
	require.Equal(t, "arm64", node.Labels[corev1.LabelArchStable])
	nodekeep.WaitRecorded(t, node, all)

	for range 2 { // what was restored has no manager, and stays remembered
		nodekeep.DeleteNode(t, name)
		returned := nodekeep.Register(t, name)
		assert.Equal(t, "row-1", returned.Labels[zone], "a kubelet may carry the zone: it is in the CREATE")
		assert.Equal(t, "metal", returned.Labels[pool])
		assert.NotContains(t, returned.Labels, part, "it waits for capture")
		assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints))
		assert.NotContains(t, returned.Labels, "node-ready/verified", "a check that another machine has passed")
		assert.Equal(t, "amd64", returned.Labels[corev1.LabelArchStable])
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, all), all)
	}
	nodekeep.Label(t, name, map[string]any{zone: nil, part: "core"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{part: "core", pool: "metal", cpus: "own"})
}

func TestWhatAComponentSetsOrTakesOverIsNotRecordedAndNotRestored(t *testing.T) {
	const name = "evidence-2"
	nodekeep.Register(t, name)
	setAs(t, nodekeep.Admin, name, "my-cloud-controller-manager", map[string]any{zone: "cloud-a"})
	setAs(t, nodekeep.Admin, name, "vendor-controller", map[string]any{cpus: "H100", part: "edge"})
	nodekeep.Label(t, name, map[string]any{"rack": "r1"})
	node := nodekeep.Node(t, name)
	nodekeep.WaitRecorded(t, node, map[string]string{"rack": "r1"})

	nodekeep.Label(t, name, map[string]any{zone: "row-1", cpus: "own"})
	nodekeep.WaitRecorded(t, node, map[string]string{"rack": "r1", zone: "row-1", cpus: "own"})
	nodekeep.DeleteNode(t, name)
	returned := nodekeep.Register(t, name)
	require.Equal(t, "row-1", returned.Labels[zone])

	setAs(t, nodekeep.Admin, name, "my-cloud-controller-manager", map[string]any{zone: "cloud-b"})
	nodekeep.WaitRecorded(t, returned, map[string]string{"rack": "r1", cpus: "own"})
	webhookHasRecords(t)
	nodekeep.DeleteNode(t, name)
	assert.NotContains(t, nodekeep.Register(t, name).Labels, zone, "its owner sets it again, or has dropped it")

	nodekeep.DeleteNode(t, name)
	brought := nodekeep.RegisterNode(t, harness.RegistrationWith(name, map[string]string{cpus: "from-kubelet"}))
	assert.Equal(t, "from-kubelet", brought.Labels[cpus])
	nodekeep.WaitRecorded(t, brought, map[string]string{"rack": "r1"})
}

// A kubelet chooses the name of its field manager. docs/security.md says what that costs.
func TestAKubeletThatCallsItselfKubectlMakesOnlyItsOwnLabelsLast(t *testing.T) {
	const name = "evidence-3"
	nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]any{part: "edge"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{part: "edge"})

	setAs(t, nodekeep.Kubelet(t, name), name, "kubectl-label", map[string]any{zone: "forged"})
	node := nodekeep.Node(t, name)
	nodekeep.WaitRecorded(t, node, map[string]string{part: "edge", zone: "forged"})

	entry := metav1.ManagedFieldsEntry{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app.kubernetes.io/part-of":{},"f:topology.kubernetes.io/zone":{}}}}`),
	}
	body := harness.MustJSON(t, map[string]any{"metadata": map[string]any{"managedFields": []metav1.ManagedFieldsEntry{entry}}})
	_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
	nodekeep.WaitRecorded(t, node, map[string]string{part: "edge"})
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	nodekeep.WaitRestored(t, name, map[string]string{part: "edge"})
}

func TestACordonIsRecordedOnlyIfThePolicySaysSo(t *testing.T) {
	const name, head = "cordon-1", "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n"
	nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]any{"rack": "r1"})
	nodekeep.MustKubectl(t, "cordon", name)
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"rack": "r1"})
	nodekeep.DeleteNode(t, name)
	require.False(t, nodekeep.Register(t, name).Spec.Unschedulable, "by default a Node registers schedulable")

	withPolicy(t, policytest.Manifest("cordon: keep\n"), func() {
		nodekeep.MustKubectl(t, "cordon", name)
		want := map[string]string{"rack": "r1", policy.Cordon: ""}
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), want)
		nodekeep.DeleteNode(t, name)
		returned := nodekeep.Register(t, name)
		assert.True(t, returned.Spec.Unschedulable, "it is in the CREATE")
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, nil), want)

		nodekeep.DeleteNode(t, name)
		nodekeep.WithoutWebhook(t, func() {
			require.False(t, nodekeep.Register(t, name).Spec.Unschedulable)
			assert.True(t, nodekeep.WaitRestored(t, name, nil).Spec.Unschedulable, "capture restores it before it lifts the gate")
		})
		nodekeep.MustKubectl(t, "uncordon", name)
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"rack": "r1"})
		webhookHasRecords(t)
		nodekeep.DeleteNode(t, name)
		assert.False(t, nodekeep.Register(t, name).Spec.Unschedulable, "an operator has uncordoned it")
	})
}
