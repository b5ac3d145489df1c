package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// A client that reads the Node, decides, and sends the whole list of taints without the resourceVersion: as `kubectl taint` does.
func TestAListOfTaintsThatWasReadBehindTheGateRemovesNothingThatCameSince(t *testing.T) {
	const name = "stale-list-1"
	nodekeep.Register(t, name)
	nodekeep.WaitRecorded(t, nodekeep.Taint(t, name, "tenant=blue:NoSchedule"), map[string]string{"tenant:NoSchedule": "blue"})
	nodekeep.DeleteNode(t, name)
	nodekeep.WaitDeletionRecorded(t, name)
	var read *corev1.Node
	nodekeep.WithoutWebhook(t, func() {
		nodekeep.WithoutCapture(t, func() {
			read = nodekeep.RegisterNode(t, tainted(name, "own=1:NoSchedule"))
			require.True(t, policy.DefaultGate.Present(read.Spec.Taints))
		})
		nodekeep.WaitRestored(t, name, nil)
	})
	nodekeep.WaitRecorded(t, nodekeep.Taint(t, name, "late=1:NoExecute"), map[string]string{"tenant:NoSchedule": "blue", "own:NoSchedule": "1", "late:NoExecute": "1"})

	shows := func(want map[string]string, taints ...string) {
		t.Helper()
		harness.Eventually(t, func() bool {
			return slices.Equal(taints, harness.TaintsOf(nodekeep.Node(t, name)))
		}, time.Minute, 20*time.Millisecond, "taints %v", taints)
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), want)
	}
	for range 2 {
		nodekeep.MergeNode(t, name, map[string]any{"spec": map[string]any{"taints": append(slices.Clone(read.Spec.Taints), harness.TaintOf("disk=bad:NoSchedule"))}})
		shows(map[string]string{"tenant:NoSchedule": "blue", "own:NoSchedule": "1", "late:NoExecute": "1", "disk:NoSchedule": "bad"},
			"disk=bad:NoSchedule", "late=1:NoExecute", "own=1:NoSchedule", "tenant=blue:NoSchedule")
	}
	// What it had read is removed, and so is what a client removes later.
	nodekeep.MergeNode(t, name, map[string]any{"spec": map[string]any{"taints": harness.WithoutTaint(read.Spec.Taints, "own=1:NoSchedule")}})
	shows(map[string]string{"tenant:NoSchedule": "blue", "late:NoExecute": "1"}, "late=1:NoExecute", "tenant=blue:NoSchedule")
	nodekeep.Untaint(t, name, "late=1:NoExecute")
	shows(map[string]string{"tenant:NoSchedule": "blue"}, "tenant=blue:NoSchedule")
}
