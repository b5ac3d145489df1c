package local

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/verify"
)

// rebooting is policy.verify with a profile that checks Nodes again after a reboot.
const rebooting = `{"profiles": [{"name": "all", "checks": [{"name": "api", "api": {}}], "reverify": "onReboot",
	"timeout": "8s", "startTimeout": "30s", "attempts": {"max": 3, "backoff": "1s", "maxBackoff": "3s"}}]}`

// A restart of the kubelet is over before anybody misses it, or it is not; a reboot ends all containers and gives the machine another boot ID.
func TestARealNodeIsVerifiedAgainAfterARebootAndNotAfterARestartOfItsKubelet(t *testing.T) {
	c := forTest(t)
	c.verifying(t, rebooting)
	k := c.add(t, "node-2")
	first := c.opens(t, k.name)
	require.Equal(t, 1, roundOf(first))
	states := c.watchesNode(t, k.name)

	t.Run("a short restart of the kubelet", func(t *testing.T) {
		k.stop(t)
		prev := c.Node(t, k.name)
		k.start(t)
		reported := c.await(t, k.name, "reported by the new kubelet", func(node *corev1.Node) bool { return heartbeat(node).After(heartbeat(prev)) })
		for _, node := range states.upTo(t, reported) {
			assert.False(t, unverified(node), "version %s", node.ResourceVersion)
			assert.Equal(t, 1, roundOf(node), "version %s", node.ResourceVersion)
		}
	})

	t.Run("a kubelet that is away for long", func(t *testing.T) {
		k.stop(t)
		c.await(t, k.name, "held while it is not Ready", func(node *corev1.Node) bool { return !ready(node) && unverified(node) })
		k.start(t)
		node := c.await(t, k.name, "open", func(node *corev1.Node) bool { return ready(node) && !unverified(node) })
		assert.Equal(t, 1, roundOf(node), "it was not checked again")
		assert.Equal(t, "true", node.Labels[verify.Label])
	})

	t.Run("a reboot, after which a check fails", func(t *testing.T) {
		k.stop(t)
		k.stopContainers(t)
		c.await(t, k.name, "held while it is not Ready", func(node *corev1.Node) bool { return !ready(node) && unverified(node) })
		pod := c.createPod(t, corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: k.name}}, "version").Name
		k.breaks(t, faults{Lost: []string{"10.96.0.1/32"}})
		k.boots(t, "11111111-1111-4111-8111-111111111111")
		c.staysTainted(t, k.name, verify.VerdictFailed, "api", []string{string(verify.ReasonTimeout)})
		assert.Empty(t, c.pod(t, pod).Spec.NodeName, "a Pod without toleration was bound to a Node that has not passed since it booted")
		k.breaks(t, faults{})
		assert.Equal(t, 2, roundOf(c.opens(t, k.name)))
		c.untilPod(t, pod, succeeded)
	})
	var booted int
	for _, node := range states.upTo(t, c.Node(t, k.name)) {
		if node.Status.NodeInfo.BootID == first.Status.NodeInfo.BootID {
			continue
		}
		booted++
		assert.Equal(t, roundOf(node) != 2, unverified(node), "version %s: taints %v, annotation %s", node.ResourceVersion, node.Spec.Taints, node.Annotations[verify.Annotation])
	}
	assert.Positive(t, booted, "the kubelet must have reported the new boot")

	t.Run("a reboot that is over before the Node stops being ready", func(t *testing.T) {
		k.stop(t)
		k.stopContainers(t)
		k.boots(t, "22222222-2222-4222-8222-222222222222")
		c.await(t, k.name, "verified again", func(node *corev1.Node) bool { return !unverified(node) && roundOf(node) == 3 })
	})
}

// boots starts the machine of a kubelet anew, which has this boot ID.
func (k *kubelet) boots(t *testing.T, bootID string) {
	t.Helper()
	file := filepath.Join(k.folder, "boot_id")
	require.NoError(t, os.WriteFile(file, []byte(bootID+"\n"), 0o600))
	k.startContainers(t)
	k.start(t, "--boot-id-file="+file)
}

func roundOf(node *corev1.Node) int {
	return verify.ParseProgress(node.Annotations[verify.Annotation]).Round
}

// heartbeat returns when the kubelet last said whether it is ready.
func heartbeat(node *corev1.Node) (last time.Time) {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			last = condition.LastHeartbeatTime.Time
		}
	}
	return last
}

// await waits until a Node is what it should be, and returns it as it is then.
func (c *cluster) await(t *testing.T, name, subject string, holds func(*corev1.Node) bool) (node *corev1.Node) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, settles, true, func(ctx context.Context) (bool, error) {
		var err error
		node, err = c.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && holds(node), nil
	})
	require.NoError(t, err, "node %s must be %s; last seen: labels %v, taints %v, annotations %v", name, subject, node.Labels, node.Spec.Taints, node.Annotations)
	return node
}
