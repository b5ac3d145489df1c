package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const quarantinePolicy = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {keep: ['*', 'node-restriction.kubernetes.io/*']}\nmachine: {onMismatch: quarantine}\n"

const tier = "node-restriction.kubernetes.io/tier"

// registerAs registers a Node of that name on another machine, gated by its kubelet.
func registerAs(t *testing.T, name, machine string) *corev1.Node {
	t.Helper()
	node := harness.Registration(name)
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = "system-"+machine, "machine-"+machine
	created := nodekeep.RegisterNode(t, node)
	return created
}

func TestAnotherMachineUnderTheNameIsQuarantinedUntilAnOperatorDecides(t *testing.T) {
	withPolicy(t, quarantinePolicy, func() {
		for _, c := range []struct {
			name, accept string
			want         map[string]string
			absent       string
		}{
			{"machine-1", "old", map[string]string{"dedicated": "ci", worker: "", tier: "gold", "new": "1"}, ""},
			{"machine-2", "new", map[string]string{"new": "1"}, "dedicated"},
		} {
			t.Run(c.accept+" side is accepted", func(t *testing.T) {
				old := map[string]string{"dedicated": "ci", worker: "", tier: "gold"}
				nodekeep.RegisterRecorded(t, c.name, old)
				nodekeep.DeleteNode(t, c.name)
				back := registerAs(t, c.name, "another")
				assert.NotContains(t, back.Labels, "dedicated", "nothing is restored")
				assert.True(t, policy.DefaultGate.On(back.Spec.Taints), "the gate stays")
				require.Eventually(t, func() bool { return nodekeep.RecordMap(t, c.name).Data[store.QuarantinedKey] != "" }, settles, 20*time.Millisecond)
				setAside, err := store.Decode([]byte(nodekeep.RecordMap(t, c.name).Data[store.QuarantinedKey]), c.name)
				require.NoError(t, err)
				assert.Equal(t, old, setAside.Items(), "the old side is untouched")
				nodekeep.WaitEvent(t, c.name, "MachineMismatch")
				described, err := nodekeep.Kubectl(t.Context(), "describe", "node", c.name)
				require.NoError(t, err, described)
				assert.Contains(t, described, "nodekeep accept "+c.name+" --machine old")
				assert.Contains(t, described, "kubectl -n "+harness.Namespace+" annotate configmap "+store.Name(c.name)+" ")

				nodekeep.Label(t, c.name, map[string]any{"new": "1"})
				require.Eventually(t, func() bool { record, _ := nodekeep.Record(t, c.name); return record.Items()["new"] == "1" }, settles, 20*time.Millisecond)
				assert.True(t, policy.DefaultGate.On(nodekeep.Node(t, c.name).Spec.Taints), "still undecided")

				out, err := nodekeep.Kubectl(t.Context(), "-n", harness.Namespace, "annotate", "configmap", store.Name(c.name), store.AcceptAnnotation+"="+c.accept)
				require.NoError(t, err, out)
				node := nodekeep.WaitRestored(t, c.name, c.want)
				if c.absent != "" {
					assert.NotContains(t, node.Labels, c.absent)
				}
				nodekeep.WaitRecorded(t, node, c.want)
				cm := nodekeep.RecordMap(t, c.name)
				assert.NotContains(t, cm.Data, store.QuarantinedKey)
				assert.NotContains(t, cm.Annotations, store.AcceptAnnotation)
			})
		}
	})
}

func TestAnIsolationLabelGoesOnlyToTheMachineThatHadIt(t *testing.T) {
	const name = "isolated-1"
	withPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {keep: ['*', '"+tier+"']}\n", func() {
		nodekeep.RegisterRecorded(t, name, map[string]string{tier: "gold", "plain": "1"})
		for range 2 {
			nodekeep.DeleteNode(t, name)
			impostor := registerAs(t, name, "impostor")
			assert.Equal(t, "1", impostor.Labels["plain"])
			require.Eventually(t, func() bool { record, _ := nodekeep.Record(t, name); return record.Newest().UID == impostor.UID }, settles, 20*time.Millisecond)
			assert.NotContains(t, nodekeep.Node(t, name).Labels, tier)
			record, _ := nodekeep.Record(t, name)
			assert.Equal(t, "gold", record.Items()[tier], "it stays remembered")
		}
		nodekeep.DeleteNode(t, name)
		nodekeep.Register(t, name)
		nodekeep.WaitRestored(t, name, map[string]string{tier: "gold", "plain": "1"})
	})
}

// The PATCH is made by the test with capture's own identity, as if capture had died right behind it.
func TestAProtectedLabelRemovedAfterACrashStaysRemovedWhileTheGuardPoliciesAreInForce(t *testing.T) {
	const name = "crashed-3"
	nodekeep.RegisterRecorded(t, name, map[string]string{"keep": "1", worker: ""})
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-capture")
	require.NoError(t, err)
	asCapture, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	nodekeep.WithoutCapture(t, func() {
		nodekeep.DeleteNode(t, name)
		back := nodekeep.Register(t, name)
		require.True(t, policy.DefaultGate.On(back.Spec.Taints))
		stamp := givenNow(t, name, map[string]string{"keep": "1", worker: ""})
		_, err := asCapture.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, harness.MustJSON(t, map[string]any{
			"metadata": map[string]any{"labels": map[string]string{worker: ""}, "annotations": map[string]string{policy.StampAnnotation: stamp}},
			"spec":     map[string]any{"taints": policy.DefaultGate.Without(back.Spec.Taints)},
		}), metav1.PatchOptions{FieldManager: "nodekeep"})
		require.NoError(t, err)
		nodekeep.Label(t, name, map[string]any{worker: nil})
	})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"keep": "1"})
	assert.NotContains(t, nodekeep.Node(t, name).Labels, worker)
}

func TestAKubeletCannotMakeAProtectedLabelBeForgottenWithoutTheGuardPolicies(t *testing.T) {
	const name = "forger-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{worker: ""})
	require.NoError(t, nodekeep.WithoutGuards(t.Context(), func() {
		nodekeep.WithoutCapture(t, func() {
			nodekeep.DeleteNode(t, name)
			nodekeep.Register(t, name)
			_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, harness.MustJSON(t, map[string]any{
				"metadata": map[string]any{"annotations": map[string]string{policy.StampAnnotation: givenNow(t, name, map[string]string{worker: ""})}},
			}), metav1.PatchOptions{})
			require.NoError(t, err, "a kubelet may write annotations")
		})
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, map[string]string{worker: ""}), map[string]string{worker: ""})
	}))
}
