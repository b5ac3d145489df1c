package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// denyLabel has an admission policy deny updates of Nodes with a label, until lift. probe is a Node by which it sees that the policy is in force.
func denyLabel(t *testing.T, probe, key string) (lift func()) {
	t.Helper()
	nodekeep.Register(t, probe)
	patch := harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": map[string]string{key: ""}}})
	return nodekeep.Deny(t, "no-such-label", harness.Denial{
		Operation: admissionregistrationv1.Update,
		Exception: "!has(object.metadata.labels) || !('" + key + "' in object.metadata.labels)", Message: "label refused by the test",
	}, func() bool {
		_, err := nodekeep.Admin.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), probe, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
}

func TestALabelThatTheAPIServerRefusesStaysRememberedAndTheGateStays(t *testing.T) {
	const name, key = "refused-1", "node-role.kubernetes.io/refused"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1", key: "", worker: ""})
	nodekeep.DeleteNode(t, name)
	lift := denyLabel(t, "refused-probe", key)

	returned := nodekeep.Register(t, name)
	assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints))
	adopted := recordComes(t, name, func(r record.Record) bool { return r.Newest().UID == returned.UID })
	assert.Equal(t, map[string]string{"a": "1", worker: "", key: ""}, adopted.Items(), "the refused label is not forgotten")
	nodekeep.WaitEvent(t, name, "LabelRefused")
	node := nodekeep.Node(t, name)
	assert.Contains(t, node.Labels, worker, "the other labels were given")
	assert.True(t, policy.DefaultGate.Holds(node.Spec.Taints), "the gate stays while it is refused")

	lift() // nothing else happens
	nodekeep.WaitRestored(t, name, map[string]string{"a": "1", key: "", worker: ""})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"a": "1", key: "", worker: ""})
}

// While the device plugin is away, the record alone says what the rule sets.
func TestALabelOfARuleThatTheAPIServerRefusesStaysInTheRecordAndTheGateStays(t *testing.T) {
	const name = "refused-gpu-1"
	prev := map[string]string{gpuWorker: ""}
	rule := `{name: gpu, when: {names: [` + name + `], capacity: {nvidia.com/gpu: ">=1"}}, set: {` + gpuWorker + `: ""}, trust: kubelet}`
	withPolicy(t, policytest.Manifest("labels: {rules: ["+rule+"]}\n"), func() {
		nodekeep.Register(t, name)
		reports(t, name, "2", longReady())
		becomes(t, name, prev)
		nodekeep.DeleteNode(t, name)
		lift := denyLabel(t, "refused-gpu-probe", gpuWorker)

		nodekeep.Register(t, name)
		nodekeep.WaitEvent(t, name, "LabelRefused")
		staysAs(t, nodekeep.Node(t, name))
		assert.True(t, harness.Gated(nodekeep.Node(t, name)))

		lift() // nothing else happens
		becomes(t, name, prev)
	})
	becomes(t, name, map[string]string{})
}
