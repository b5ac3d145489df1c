package recipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// The examples for other tools that act on the condition of verification. What they say of a Node is tested in test/contract.
func TestMachineHealthChecksOfTheDocsAreAcceptedByTheirKind(t *testing.T) {
	require.NoError(t, nodekeep.ApplyCRDs(t.Context(), harness.MachineHealthCheckCRDs))
	for _, version := range []string{"v1beta1", "v1beta2"} {
		applyStrictly(t, pageYAML(t, "verification.md", "Cluster API", "apiVersion: cluster.x-k8s.io/"+version+"\n"))
	}
	// What v1beta1 says would be converted by a webhook, which does not run here.
	const conditions = "jsonpath={.spec.checks.unhealthyNodeConditions[*].type}"
	assert.Equal(t, verify.Condition+" Ready Ready", nodekeep.MustKubectl(t, "get", "machinehealthchecks", "workers", "-o", conditions))
}

// A rule of the node readiness controller keeps its own taint on a Node. nodekeep must not make it last.
func TestATaintOfTheNodeReadinessControllerIsNotRestored(t *testing.T) {
	const (
		name  = "readiness-1"
		taint = "readiness.k8s.io/nodekeep-verified=pending:NoSchedule"
	)
	t.Cleanup(func() { deleteNode(t, name) })
	node := nodekeep.Register(t, name)
	nodekeep.Taint(t, name, taint)
	nodekeep.Label(t, name, map[string]string{"pool": "workers"})
	nodekeep.WaitRecorded(t, node, map[string]string{"pool": "workers"})
	nodekeep.DeleteNode(t, name)
	nodekeep.WaitDeletionRecorded(t, name)

	created := nodekeep.Register(t, name)
	assert.Equal(t, "workers", created.Labels["pool"], "its rule selects the Node from the start")
	assert.False(t, harness.Carries(created, taint), "%v", harness.TaintsOf(created))
}
