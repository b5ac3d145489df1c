package scheduling

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// policyWith returns the policy of these tests: a rule makes a taint of a label, and protected labels are restored as it says.
func policyWith(protected string) string {
	return fmt.Sprintf(`apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    protected: %s
  taints:
    rules:
    - selector: dedicated=ci
      taint: dedicated=ci:NoSchedule
`, protected)
}

// asInstalled changes nothing: webhook, capture and gate policy, protected labels deferred.
func asInstalled(*testing.T) {}

// withoutWebhook stops the webhook until the test ends.
func withoutWebhook(t *testing.T) {
	require.NoError(t, nodekeep.StopWebhook())
	t.Cleanup(func() { require.NoError(t, nodekeep.StartWebhook(context.Background())) })
}

// withoutCapture stops capture until the test ends, or until it is started.
func withoutCapture(t *testing.T) (start func()) {
	require.NoError(t, nodekeep.StopCapture())
	stopped := true
	start = func() {
		if stopped {
			stopped = false
			require.NoError(t, nodekeep.StartCapture(context.WithoutCancel(t.Context())))
		}
	}
	t.Cleanup(start)
	return start
}

// withoutGatePolicy turns the off switch of the gate policy, until the test ends.
func withoutGatePolicy(t *testing.T) {
	withoutWebhookAndGatePolicy(t)
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	t.Cleanup(func() { require.NoError(t, nodekeep.StopWebhook()) })
}

// withoutWebhookAndGatePolicy leaves capture alone with the Nodes, until the test ends. The webhook goes first and comes
// back last: without it a dry run shows what the gate policy does.
func withoutWebhookAndGatePolicy(t *testing.T) {
	withoutWebhook(t)
	require.NoError(t, nodekeep.GateOff(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, nodekeep.GateOn(context.Background()))
		nodekeep.WaitGating(t, true)
	})
	nodekeep.WaitGating(t, false)
}

// withoutAnything leaves the Nodes to themselves until the test ends, or until capture is started.
func withoutAnything(t *testing.T) (startCapture func()) {
	withoutWebhookAndGatePolicy(t)
	return withoutCapture(t)
}
