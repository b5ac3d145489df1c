package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
)

func TestWithCaptureDownOrdinaryLabelsAreRestoredAndProtectedOnesWaitBehindTheGate(t *testing.T) {
	const name = "capture-down-1"
	want := map[string]string{"dedicated": "ci", worker: ""}
	rememberedNode(t, name, want)
	withoutCapture(t, func() {
		deleteNode(t, name)
		back := register(t, name)
		assert.Equal(t, "ci", back.Labels["dedicated"])
		time.Sleep(300 * time.Millisecond)
		assert.True(t, policy.DefaultGate.Holds(getNode(t, name).Spec.Taints), "the gate waits for capture")
	})
	remembers(t, complete(t, name, want), want)
}

func TestWithBothDownNodesRegisterAndNothingIsLost(t *testing.T) {
	const name = "both-down-1"
	want := map[string]string{"dedicated": "ci", worker: ""}
	rememberedNode(t, name, want)
	withoutCapture(t, func() {
		withoutWebhook(t, func() {
			deleteNode(t, name)
			assert.NotContains(t, register(t, name).Labels, "dedicated")
		})
	})
	remembers(t, complete(t, name, want), want)
}

func TestAHangingWebhookDelaysARegistrationByItsTimeoutAndNoMore(t *testing.T) {
	const name = "hanging-1"
	want := map[string]string{"dedicated": "ci"}
	rememberedNode(t, name, want)
	process := nodekeep.Cluster.Process("nodekeep-webhook")
	require.NoError(t, process.Pause())
	deleteNode(t, name)
	started := time.Now()
	back := register(t, name)
	t.Logf("registered after %s", time.Since(started).Round(time.Millisecond))
	require.NoError(t, process.Resume())
	assert.NotContains(t, back.Labels, "dedicated", "the webhook did hang")
	complete(t, name, want)
}
