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
	nodekeep.WithoutBoth(t, func() {
		for name, taints := range map[string][]string{
			"gate-flag-1": {gate},
			"gate-flag-2": {"a:NoSchedule", gate},
			"gate-flag-3": {"a:NoSchedule"},
			"gate-flag-4": nil,
		} {
			assert.Equal(t, 1, countGates(nodekeep.RegisterNode(t, tainted(name, taints...))), name)
		}
	})
	for n := range 4 {
		nodekeep.WaitRestored(t, fmt.Sprintf("gate-flag-%d", n+1), nil)
	}
}

func TestAGateOfTheKubeletIsLiftedInTheCreateWhenNothingIsLeftToRestore(t *testing.T) {
	const name = "gate-lifted-1"
	created := nodekeep.RegisterNode(t, tainted(name, "a:NoSchedule", "nodekeep.dev/restoring=x:NoExecute", gate))
	assert.Zero(t, countGates(created))
	assert.Equal(t, "a", created.Spec.Taints[0].Key)
}

// A policy whose switch is a parameter fails this: API servers stop following parameters of a built-in kind once a second has passed
// without a binding that names it, and never follow them again.
func TestTheOffSwitchStopsGatingAlsoAfterPolicyAndSwitchWereAway(t *testing.T) {
	nodekeep.WithoutBoth(t, func() {
		require.NoError(t, nodekeep.GateOff(t.Context()))
		nodekeep.WaitGating(t, false)
		require.NoError(t, nodekeep.Admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Delete(t.Context(), "nodekeep-gate", metav1.DeleteOptions{}))
		time.Sleep(3 * time.Second)
		for range 2 {
			require.NoError(t, nodekeep.GateOn(t.Context()))
			nodekeep.WaitGating(t, true)
			require.NoError(t, nodekeep.GateOff(t.Context()))
			nodekeep.WaitGating(t, false)
		}
		require.NoError(t, nodekeep.GateOn(t.Context()))
		nodekeep.WaitGating(t, true)
	})
}
