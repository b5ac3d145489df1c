package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestWithTheWebhookDownEveryNodeIsGatedUntilCaptureHasCompletedIt(t *testing.T) {
	const count, maintenance = 50, "maintenance=disk:NoExecute"
	names := harness.Names("gated", count)
	labels := map[string]string{"dedicated": "ci", worker: ""}
	want := map[string]string{"dedicated": "ci", worker: "", "maintenance:NoExecute": "disk"}
	eachNode(names, func(name string) {
		node := nodekeep.Register(t, name)
		nodekeep.Label(t, name, labels)
		nodekeep.Taint(t, name, maintenance)
		nodekeep.WaitRecorded(t, node, want)
		nodekeep.DeleteNode(t, name)
	})
	seen := nodekeep.WatchNodes(t)
	nodekeep.WithoutWebhook(t, func() {
		eachNode(names, func(name string) {
			returned := nodekeep.Register(t, name)
			assert.True(t, harness.Carries(returned, gate), "%s joined, but gated", name)
			assert.False(t, harness.Carries(returned, maintenance), "the webhook was down")
		})
		assert.True(t, harness.Carries(nodekeep.Register(t, "gated-fresh"), gate), "also one without a record")
		for _, name := range names {
			nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, labels), want)
			assert.Equal(t, []string{maintenance}, harness.TaintsOf(nodekeep.Node(t, name)))
		}
		nodekeep.WaitEvent(t, names[0], "LabelsRestored")
		nodekeep.WaitRestored(t, "gated-fresh", nil)
	})
	seen.Stop()
	for _, name := range names {
		for _, state := range seen.States(name) {
			complete := harness.Carries(state.Node, maintenance) && harness.HasAll(state.Labels, labels)
			assert.True(t, complete || policy.DefaultGate.Holds(state.Spec.Taints), "%s was seen incomplete and without the gate", name)
		}
	}
}

func TestTheKubeletsOwnGateAndThePolicyTogetherAreOneGate(t *testing.T) {
	nodekeep.WithoutBoth(t, func() {
		for name, taints := range map[string][]string{
			"gate-flag-1": {gate},
			"gate-flag-2": {"a:NoSchedule", gate},
			"gate-flag-3": {"a:NoSchedule"},
			"gate-flag-4": nil,
		} {
			assert.True(t, harness.Carries(nodekeep.RegisterNode(t, tainted(name, taints...)), gate), "%s has it once", name)
		}
	})
	for n := range 4 {
		nodekeep.WaitRestored(t, fmt.Sprintf("gate-flag-%d", n+1), nil)
	}
}

func TestAGateOfTheKubeletIsLiftedInTheCreateWhenNothingIsLeftToRestore(t *testing.T) {
	const name = "gate-lifted-1"
	created := nodekeep.RegisterNode(t, tainted(name, "a:NoSchedule", "nodekeep.dev/restoring=x:NoExecute", gate))
	assert.Equal(t, []string{"a:NoSchedule"}, harness.TaintsOf(created))
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
