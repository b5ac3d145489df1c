//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestNodekeep is one scenario, since there is one cluster: from nothing through an installation, an upgrade, an uninstall and a second
// installation. -run TestNodekeep/NAME runs the installation and that part.
func TestNodekeep(t *testing.T) {
	prev := beforeInstall(t)
	install(t)
	t.Run("remembers a Node that was there before it", func(t *testing.T) { remembersANodeThatWasThere(t, prev) })
	t.Run("restores labels and taints in the CREATE itself", restoresInTheCreate)
	t.Run("gives protected labels back behind the gate", givesProtectedLabelsBack)
	t.Run("keeps Nodes gated while the webhook is down, and completes them", keepsNodesGated)
	t.Run("puts taints on by rules and at registration", putsTaintsOn)
	t.Run("records a label set at the moment of the deletion", remembersTheLastMoment)
	t.Run("misses no registration while the webhook restarts", missesNothingWhileTheWebhookRestarts)
	t.Run("runs without restarts and refusals", runsWithoutRestarts)
	t.Run("keeps records and certificates over an upgrade", keepsRecordsOverAnUpgrade)
	t.Run("leaves no Node gated when it is uninstalled, and the records", leavesNoNodeGated)
	t.Run("goes on with its records when it is installed again", goesOnWithItsRecords)
}

// install installs the chart into a namespace with the mark and waits until the API server calls the webhook.
func install(t *testing.T) {
	t.Helper()
	installed.makeNamespace(t)
	begun := time.Now()
	installed.upgrade(t, installed.baseValues())
	ready := time.Since(begun)
	installed.called(t)
	t.Logf("installed: helm returned after %s, five dry-run CREATEs in a row were stamped after %s", ready.Round(100*time.Millisecond), time.Since(begun).Round(100*time.Millisecond))
}

// runsWithoutRestarts looks for what a cluster's operator would be told about: containers that ended, and calls that RBAC refused.
func runsWithoutRestarts(t *testing.T) {
	for _, name := range []string{webhookName, captureName} {
		pods := installed.pods(t, name)
		require.NotEmpty(t, pods)
		for _, pod := range pods {
			for _, status := range pod.Status.ContainerStatuses {
				assert.Zero(t, status.RestartCount, "restarts of %s/%s: %+v", pod.Name, status.Name, status.LastTerminationState)
			}
			for _, line := range strings.Split(logs(t.Context(), pod.Name), "\n") {
				for _, bad := range []string{"forbidden", "panic", "level=ERROR"} {
					assert.NotContains(t, line, bad, "log of %s", pod.Name)
				}
			}
		}
	}
}

// logs returns what a pod has printed, or why it cannot be read.
func logs(ctx context.Context, pod string) string {
	out, err := installed.admin.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return string(out)
}
