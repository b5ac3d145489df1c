package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
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
			require.NoError(t, nodekeep.GateOff(t.Context()))
			gatedIs(t, "off-switch", false)
			require.NoError(t, nodekeep.GateOn(t.Context()))
			gatedIs(t, "off-switch", true)
		})
	})
}

// A policy whose switch is a parameter fails this: API servers stop following parameters of a built-in kind once a second has passed
// without a binding that names it, and never follow them again.
func TestTheGatePolicyAndItsOffSwitchWorkAfterBothWereAway(t *testing.T) {
	withoutCapture(t, func() {
		withoutWebhook(t, func() {
			binding := nodekeep.Admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
			require.NoError(t, binding.Delete(t.Context(), "nodekeep-gate", metav1.DeleteOptions{}))
			gatedIs(t, "binding", false)
			time.Sleep(3 * time.Second)
			require.NoError(t, nodekeep.GateOn(t.Context()))
			gatedIs(t, "binding", true)
			require.NoError(t, nodekeep.GateOff(t.Context()))
			gatedIs(t, "binding", false)
			require.NoError(t, binding.Delete(t.Context(), "nodekeep-gate", metav1.DeleteOptions{}))
			time.Sleep(3 * time.Second)
			require.NoError(t, nodekeep.GateOn(t.Context()))
			gatedIs(t, "binding", true)
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

// A cluster in which every Node has gone comes back by itself only if our own pods may run on gated Nodes.
func TestOurOwnPodsTolerateTheGate(t *testing.T) {
	for _, name := range []string{"nodekeep-webhook", "nodekeep-capture"} {
		deployment, err := nodekeep.Admin.AppsV1().Deployments(harness.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		gate := policy.DefaultGate.Taint()
		tolerated := false
		for _, toleration := range deployment.Spec.Template.Spec.Tolerations {
			tolerated = tolerated || toleration.Key == gate.Key && toleration.Operator == corev1.TolerationOpExists
		}
		assert.True(t, tolerated, name)
	}
}
