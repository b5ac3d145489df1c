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
	node := registration(name, nil)
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = "system-"+machine, "machine-"+machine
	created, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

// configMapOf is the ConfigMap of a Node's record.
func configMapOf(t *testing.T, node string) *corev1.ConfigMap {
	t.Helper()
	cm, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	require.NoError(t, err)
	return cm
}

func TestAnotherMachineUnderTheNameIsQuarantinedUntilAPersonDecides(t *testing.T) {
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
				rememberedNode(t, c.name, old)
				deleteNode(t, c.name)
				back := registerAs(t, c.name, "another")
				assert.NotContains(t, back.Labels, "dedicated", "nothing is restored")
				assert.True(t, policy.DefaultGate.On(back.Spec.Taints), "the gate stays")
				require.Eventually(t, func() bool { return configMapOf(t, c.name).Data[store.QuarantinedKey] != "" }, settles, 20*time.Millisecond)
				setAside, err := store.Decode([]byte(configMapOf(t, c.name).Data[store.QuarantinedKey]), c.name)
				require.NoError(t, err)
				assert.Equal(t, old, setAside.Items(), "the old side is untouched")
				hasEvent(t, c.name, "MachineMismatch")

				label(t, c.name, map[string]any{"new": "1"})
				require.Eventually(t, func() bool { record, _ := recordOf(t, c.name); return record.Items()["new"] == "1" }, settles, 20*time.Millisecond)
				assert.True(t, policy.DefaultGate.On(getNode(t, c.name).Spec.Taints), "still undecided")

				out, err := nodekeep.Kubectl(t.Context(), "-n", harness.Namespace, "annotate", "configmap", store.Name(c.name), store.AcceptAnnotation+"="+c.accept)
				require.NoError(t, err, out)
				node := complete(t, c.name, c.want)
				if c.absent != "" {
					assert.NotContains(t, node.Labels, c.absent)
				}
				remembers(t, node, c.want)
				cm := configMapOf(t, c.name)
				assert.NotContains(t, cm.Data, store.QuarantinedKey)
				assert.NotContains(t, cm.Annotations, store.AcceptAnnotation)
			})
		}
	})
}

func TestAnIsolationLabelGoesOnlyToTheMachineThatHadIt(t *testing.T) {
	const name = "isolated-1"
	withPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {keep: ['*', '"+tier+"']}\n", func() {
		rememberedNode(t, name, map[string]string{tier: "gold", "plain": "1"})
		for range 2 {
			deleteNode(t, name)
			impostor := registerAs(t, name, "impostor")
			assert.Equal(t, "1", impostor.Labels["plain"])
			require.Eventually(t, func() bool { record, _ := recordOf(t, name); return record.Newest().UID == impostor.UID }, settles, 20*time.Millisecond)
			assert.NotContains(t, getNode(t, name).Labels, tier)
			record, _ := recordOf(t, name)
			assert.Equal(t, "gold", record.Items()[tier], "it stays remembered")
		}
		deleteNode(t, name)
		register(t, name)
		complete(t, name, map[string]string{tier: "gold", "plain": "1"})
	})
}

// The PATCH is made by hand with capture's own identity, as if capture had died right behind it.
func TestAProtectedLabelRemovedAfterACrashStaysRemovedWhileTheGuardPoliciesAreInForce(t *testing.T) {
	const name = "crashed-3"
	rememberedNode(t, name, map[string]string{"keep": "1", worker: ""})
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-capture")
	require.NoError(t, err)
	asCapture, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	withoutCapture(t, func() {
		deleteNode(t, name)
		back := register(t, name)
		require.True(t, policy.DefaultGate.On(back.Spec.Taints))
		stamp := givenNow(t, name, map[string]string{"keep": "1", worker: ""})
		_, err := asCapture.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, mustJSON(t, map[string]any{
			"metadata": map[string]any{"labels": map[string]string{worker: ""}, "annotations": map[string]string{policy.StampAnnotation: stamp}},
			"spec":     map[string]any{"taints": policy.DefaultGate.Without(back.Spec.Taints)},
		}), metav1.PatchOptions{FieldManager: "nodekeep"})
		require.NoError(t, err)
		label(t, name, map[string]any{worker: nil})
	})
	remembers(t, getNode(t, name), map[string]string{"keep": "1"})
	assert.NotContains(t, getNode(t, name).Labels, worker)
}

func TestAKubeletCannotMakeAProtectedLabelBeForgottenWithoutTheGuardPolicies(t *testing.T) {
	const name = "forger-1"
	rememberedNode(t, name, map[string]string{worker: ""})
	require.NoError(t, nodekeep.WithoutGuards(t.Context(), func() {
		withoutCapture(t, func() {
			deleteNode(t, name)
			register(t, name)
			_, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, mustJSON(t, map[string]any{
				"metadata": map[string]any{"annotations": map[string]string{policy.StampAnnotation: givenNow(t, name, map[string]string{worker: ""})}},
			}), metav1.PatchOptions{})
			require.NoError(t, err, "a kubelet may write annotations")
		})
		remembers(t, complete(t, name, map[string]string{worker: ""}), map[string]string{worker: ""})
	}))
}
