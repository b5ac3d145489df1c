package recipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// machinePool has labels for its Nodes where a user looks for them first. Its controller (1.13) leaves the labels of a Node alone, and its provider
// makes no Machines.
const machinePool = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: gpu, namespace: default}
spec:
  clusterName: my-cluster
  template:
    metadata:
      labels: {node-role.kubernetes.io/gpu: ""}
    spec:
      clusterName: my-cluster
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: gpu}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: ExampleMachinePool, name: gpu}
`

func TestNodesOfAMachinePoolGetTheirLabelsByTheKubeletAndRules(t *testing.T) {
	const (
		name          = "my-cluster-gpu-0"
		role          = "node-role.kubernetes.io/gpu"
		uninitialized = "node.cluster.x-k8s.io/uninitialized:NoSchedule"
		heading       = "Cluster API: labels of MachinePools"
	)
	require.NoError(t, nodekeep.ApplyCRDs(t.Context(), harness.MachinePoolCRDs, harness.KubeadmConfigCRDs))
	applyStrictly(t, pageYAML(t, "platforms.md", heading, "apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\n"))
	applyStrictly(t, machinePool)
	usePolicy(t, pageYAML(t, "platforms.md", heading, "labels:\n"))
	t.Cleanup(func() { deleteNode(t, name) })

	// What kubeadm gives to the kubelet of a Node of the pool.
	config := nodekeep.MustKubectl(t, "get", "machinepool", "gpu", "-o", "jsonpath={.spec.template.spec.bootstrap.configRef.name}")
	flag := nodekeep.MustKubectl(t, "get", "kubeadmconfig", config, "-o", `jsonpath={.spec.joinConfiguration.nodeRegistration.kubeletExtraArgs[?(@.name=="node-labels")].value}`)
	require.Equal(t, "example.com/pool=gpu", flag)
	registration := harness.RegistrationWith(name, map[string]string{"example.com/pool": "gpu"})
	registration.Spec.Taints = append(registration.Spec.Taints, harness.TaintOf(uninitialized))

	for range 2 { // a new Node, and one that registers again
		created := nodekeep.RegisterNode(t, registration)
		assert.Equal(t, "accelerated", created.Labels["example.com/class"], "a label of a rule is in the answer to the CREATE: %v", created.Labels)
		assert.True(t, hasLabel(created, role) || harness.Gated(created), "the role is there, or the gate")
		// What the controller of MachinePools does with a Node.
		nodekeep.MergeNode(t, name, map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			"cluster.x-k8s.io/cluster-name": "my-cluster", "cluster.x-k8s.io/cluster-namespace": "default",
			"cluster.x-k8s.io/owner-kind": "MachinePool", "cluster.x-k8s.io/owner-name": "gpu",
		}}})
		nodekeep.Untaint(t, name, uninitialized)
		node := nodekeep.WaitRestored(t, name, map[string]string{role: "", "example.com/class": "accelerated", "example.com/pool": "gpu"})
		assert.False(t, harness.Carries(node, uninitialized), "nodekeep does not restore what the bootstrap provider sets: %v", harness.TaintsOf(node))
		nodekeep.DeleteNode(t, name)
		nodekeep.WaitDeletionRecorded(t, name)
	}
}
