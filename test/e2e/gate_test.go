package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

func countGates(node *corev1.Node) (gates int) {
	for _, taint := range node.Spec.Taints {
		if policy.DefaultGate.Is(taint) {
			gates++
		}
	}
	return gates
}

func TestWithTheWebhookDownEveryNodeIsGatedUntilCaptureHasCompletedIt(t *testing.T) {
	const count = 50
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("gated-%02d", n)
	}
	want := map[string]string{"dedicated": "ci", worker: ""}
	eachNode(names, func(name string) { rememberedNode(t, name, want) })
	withoutWebhook(t, func() {
		eachNode(names, func(name string) {
			deleteNode(t, name)
			assert.Equal(t, 1, countGates(register(t, name)), "%s joined, but gated", name)
		})
		fresh := register(t, "gated-fresh")
		assert.Equal(t, 1, countGates(fresh), "also one that nothing is remembered of")
		for _, name := range names {
			remembers(t, complete(t, name, want), want)
		}
		complete(t, "gated-fresh", nil)
	})
}

func TestTheKubeletsOwnGateAndThePolicyTogetherAreOneGate(t *testing.T) {
	withoutCapture(t, func() {
		withoutWebhook(t, func() {
			for name, taints := range map[string][]corev1.Taint{
				"gate-flag-1": {policy.DefaultGate.Taint()},
				"gate-flag-2": {{Key: "a", Effect: corev1.TaintEffectNoSchedule}, policy.DefaultGate.Taint()},
				"gate-flag-3": {{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
				"gate-flag-4": nil,
			} {
				node := registration(name, nil)
				node.Spec.Taints = taints
				created, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
				require.NoError(t, err, "%s: two copies would make the Node invalid", name)
				assert.Equal(t, 1, countGates(created), name)
			}
		})
	})
	for n := range 4 {
		complete(t, fmt.Sprintf("gate-flag-%d", n+1), nil)
	}
}

func TestAGateOfTheKubeletIsLiftedInTheCreateWhenNothingIsLeftToRestore(t *testing.T) {
	const name = "gate-lifted-1"
	node := registration(name, nil)
	node.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: string(policy.DefaultGate), Value: "x", Effect: corev1.TaintEffectNoExecute}, policy.DefaultGate.Taint()}
	created, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Zero(t, countGates(created))
	assert.Equal(t, "a", created.Spec.Taints[0].Key)
}

func TestTheOffSwitchStopsGating(t *testing.T) {
	withoutCapture(t, func() {
		withoutWebhook(t, func() {
			offSwitch := nodekeep.Admin.CoreV1().ConfigMaps(install.Namespace)
			on, err := offSwitch.Get(t.Context(), "nodekeep-gate", metav1.GetOptions{})
			require.NoError(t, err)
			require.NoError(t, offSwitch.Delete(t.Context(), "nodekeep-gate", metav1.DeleteOptions{}))
			gatedIs(t, "off-switch", false)
			on.ResourceVersion = ""
			_, err = offSwitch.Create(t.Context(), on, metav1.CreateOptions{})
			require.NoError(t, err)
			gatedIs(t, "off-switch", true)
		})
	})
}

// gatedIs waits until the policy gates a Node, or does not, in a dry run.
func gatedIs(t *testing.T, name string, gated bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		created, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		return policy.DefaultGate.On(created.Spec.Taints) == gated
	}, settles, 50*time.Millisecond)
}

func TestANodeCannotTakeItsOwnGateOff(t *testing.T) {
	const name = "gate-own-1"
	withoutCapture(t, func() {
		withoutWebhook(t, func() { register(t, name) })
		node := getNode(t, name)
		require.True(t, policy.DefaultGate.On(node.Spec.Taints))
		node.Spec.Taints = nil
		_, err := kubelet(t, name).CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
		assert.ErrorContains(t, err, "not allowed to modify taints")
	})
	complete(t, name, nil)
}

func TestUninstallingLeavesNoNodeBehindTheGateAndForgetsNothing(t *testing.T) {
	control := cluster.ForTest(t, cluster.Options{})
	own, err := install.New(t.Context(), control) // neither process runs: Nodes stay gated
	require.NoError(t, err)
	client := own.Admin.CoreV1()
	for _, name := range []string{"left-1", "left-2"} {
		require.Eventually(t, func() bool {
			node, err := client.Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil && policy.DefaultGate.On(node.Spec.Taints)
		}, settles, 50*time.Millisecond)
		_, err := client.Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err = client.ConfigMaps(install.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "node.left-1"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	command := exec.CommandContext(t.Context(), own.Manifest("uninstall.sh"))
	command.Env = append(os.Environ(), "KUBECONFIG="+own.AdminKubeconfig(), "PATH="+filepath.Dir(cluster.Binary("kubectl"))+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"left-1", "left-2"} {
		node, err := client.Nodes().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.False(t, policy.DefaultGate.On(node.Spec.Taints))
	}
	again, err := client.Nodes().Create(t.Context(), registration("left-3", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.False(t, policy.DefaultGate.On(again.Spec.Taints), "gating has stopped")
	_, err = client.ConfigMaps(install.Namespace).Get(t.Context(), "node.left-1", metav1.GetOptions{})
	assert.NoError(t, err, "records stay until a person deletes them")
}

// A cluster in which every Node has gone comes back by itself only if our own pods may run on gated Nodes.
func TestOurOwnPodsTolerateTheGate(t *testing.T) {
	for _, name := range []string{"nodekeep-webhook", "nodekeep-capture"} {
		deployment, err := nodekeep.Admin.AppsV1().Deployments(install.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		gate := policy.DefaultGate.Taint()
		tolerated := false
		for _, toleration := range deployment.Spec.Template.Spec.Tolerations {
			tolerated = tolerated || toleration.Key == gate.Key && toleration.Operator == corev1.TolerationOpExists
		}
		assert.True(t, tolerated, name)
	}
}
