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
	names := harness.Names("gated", count)
	want := map[string]string{"dedicated": "ci", worker: ""}
	eachNode(names, func(name string) { nodekeep.RegisterRecorded(t, name, want) })
	nodekeep.WithoutWebhook(t, func() {
		eachNode(names, func(name string) {
			nodekeep.DeleteNode(t, name)
			assert.Equal(t, 1, countGates(nodekeep.Register(t, name)), "%s joined, but gated", name)
		})
		fresh := nodekeep.Register(t, "gated-fresh")
		assert.Equal(t, 1, countGates(fresh), "also one without a record")
		for _, name := range names {
			nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
		}
		nodekeep.WaitEvent(t, names[0], "LabelsRestored")
		nodekeep.WaitRestored(t, "gated-fresh", nil)
	})
}

func TestTheKubeletsOwnGateAndThePolicyTogetherAreOneGate(t *testing.T) {
	nodekeep.WithoutCapture(t, func() {
		nodekeep.WithoutWebhook(t, func() {
			for name, taints := range map[string][]corev1.Taint{
				"gate-flag-1": {policy.DefaultGate.Taint()},
				"gate-flag-2": {{Key: "a", Effect: corev1.TaintEffectNoSchedule}, policy.DefaultGate.Taint()},
				"gate-flag-3": {{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
				"gate-flag-4": nil,
			} {
				node := harness.Registration(name)
				node.Spec.Taints = taints
				created := nodekeep.RegisterNode(t, node)
				assert.Equal(t, 1, countGates(created), name)
			}
		})
	})
	for n := range 4 {
		nodekeep.WaitRestored(t, fmt.Sprintf("gate-flag-%d", n+1), nil)
	}
}

func TestAGateOfTheKubeletIsLiftedInTheCreateWhenNothingIsLeftToRestore(t *testing.T) {
	const name = "gate-lifted-1"
	node := harness.Registration(name)
	node.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: string(policy.DefaultGate), Value: "x", Effect: corev1.TaintEffectNoExecute}, policy.DefaultGate.Taint()}
	created := nodekeep.RegisterNode(t, node)
	assert.Zero(t, countGates(created))
	assert.Equal(t, "a", created.Spec.Taints[0].Key)
}

func TestTheOffSwitchStopsGating(t *testing.T) {
	nodekeep.WithoutCapture(t, func() {
		nodekeep.WithoutWebhook(t, func() {
			require.NoError(t, nodekeep.GateOff(t.Context()))
			nodekeep.WaitGating(t, false)
			require.NoError(t, nodekeep.GateOn(t.Context()))
			nodekeep.WaitGating(t, true)
		})
	})
}

// A policy whose switch is a parameter fails this: API servers stop following parameters of a built-in kind once a second has passed
// without a binding that names it, and never follow them again.
func TestTheGatePolicyAndItsOffSwitchWorkAfterBothWereAway(t *testing.T) {
	nodekeep.WithoutCapture(t, func() {
		nodekeep.WithoutWebhook(t, func() {
			binding := nodekeep.Admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
			require.NoError(t, binding.Delete(t.Context(), "nodekeep-gate", metav1.DeleteOptions{}))
			nodekeep.WaitGating(t, false)
			time.Sleep(3 * time.Second)
			require.NoError(t, nodekeep.GateOn(t.Context()))
			nodekeep.WaitGating(t, true)
			require.NoError(t, nodekeep.GateOff(t.Context()))
			nodekeep.WaitGating(t, false)
			require.NoError(t, binding.Delete(t.Context(), "nodekeep-gate", metav1.DeleteOptions{}))
			time.Sleep(3 * time.Second)
			require.NoError(t, nodekeep.GateOn(t.Context()))
			nodekeep.WaitGating(t, true)
		})
	})
}

func TestANodeCannotTakeItsOwnGateOff(t *testing.T) {
	const name = "gate-own-1"
	nodekeep.WithoutCapture(t, func() {
		nodekeep.WithoutWebhook(t, func() { nodekeep.Register(t, name) })
		node := nodekeep.Node(t, name)
		require.True(t, policy.DefaultGate.On(node.Spec.Taints))
		node.Spec.Taints = nil
		_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
		assert.ErrorContains(t, err, "not allowed to modify taints")
	})
	nodekeep.WaitRestored(t, name, nil)
}

// A cluster in which every Node was deleted recovers by itself only if our own pods may run on gated Nodes.
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
