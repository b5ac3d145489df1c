package scheduling

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// policyWith is the policy of these tests: a rule makes a taint of a label, and protected labels come back as it says.
func policyWith(protected string) string {
	return fmt.Sprintf(`apiVersion: nodekeep.dev/v1alpha1
kind: Policy
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
	down := true
	start = func() {
		if down {
			down = false
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
		awaitGating(t, true)
	})
	awaitGating(t, false)
}

// withoutAnything leaves the Nodes to themselves until the test ends, or until capture is started.
func withoutAnything(t *testing.T) (startCapture func()) {
	withoutWebhookAndGatePolicy(t)
	return withoutCapture(t)
}

// awaitGating waits until the gate policy acts, or does not.
func awaitGating(t *testing.T, want bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		node, err := register(context.WithoutCancel(t.Context()), "dry-run", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && policy.DefaultGate.On(node.Spec.Taints) == want
	}, settles, 50*time.Millisecond, "gating must come to be %t", want)
}

// inline lets the webhook put protected labels into the CREATE, until the test ends.
func inline(t *testing.T) {
	restart := func(ctx context.Context, protected string, further ...string) {
		require.NoError(t, nodekeep.StopWebhook())
		require.NoError(t, nodekeep.StopCapture())
		require.NoError(t, nodekeep.WritePolicy(policyWith(protected)))
		require.NoError(t, nodekeep.Reapply(ctx, further...))
		require.NoError(t, nodekeep.StartWebhook(ctx))
		require.NoError(t, nodekeep.StartCapture(ctx))
	}
	t.Cleanup(func() { restart(context.Background(), "deferred") })
	restart(t.Context(), "inline", harness.InlineManifest)
	// At its first start the API server did not call it yet, so the self-test failed and would be tried again after 10 s.
	require.NoError(t, nodekeep.StopWebhook())
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	require.Eventually(t, func() bool {
		response, err := http.Get(nodekeep.ReadyURL("webhook") + "?verbose")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(body), "[+] protected labels: inline")
	}, settles, 50*time.Millisecond, "the self-test must prove the inline route")
}
