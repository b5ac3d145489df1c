package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"nodekeep.dev/nodekeep/verify"
)

// rebooting is policy.verify with a profile that checks Nodes again after a reboot.
const rebooting = `{"profiles": [{"name": "all", "checks": [{"name": "api", "api": {}}], "reverify": "onReboot",
	"timeout": "8s", "startTimeout": "30s", "attempts": {"max": 3, "backoff": "1s", "maxBackoff": "3s"}}]}`

// A restart of the kubelet is over before anybody misses it, or it is not; a reboot ends all containers and gives the machine another boot ID.
func TestARealNodeIsVerifiedAgainAfterARebootAndNotAfterARestartOfItsKubelet(t *testing.T) {
	c := ForTest(t)
	c.verifying(t, rebooting)
	k := c.AddForTest(t, "node-2")
	first := c.opens(t, k.Name)
	require.Equal(t, 1, roundOf(first))
	states := c.watchesNode(t, k.Name)

	t.Run("a short restart of the kubelet", func(t *testing.T) {
		require.NoError(t, k.Stop())
		before := c.nodeOf(t, k.Name)
		require.NoError(t, k.Start())
		c.until(t, k.Name, "reported by the new kubelet", func(node *corev1.Node) bool { return heartbeat(node).After(heartbeat(before)) })
		for _, node := range nodesOf(states) {
			assert.False(t, unverified(node), "version %s", node.ResourceVersion)
			assert.Equal(t, 1, roundOf(node), "version %s", node.ResourceVersion)
		}
	})

	t.Run("a kubelet that is away for long", func(t *testing.T) {
		require.NoError(t, k.Stop())
		c.until(t, k.Name, "held while it is not Ready", func(node *corev1.Node) bool { return !ready(node) && unverified(node) })
		require.NoError(t, k.Start())
		node := c.until(t, k.Name, "open", func(node *corev1.Node) bool { return ready(node) && !unverified(node) })
		assert.Equal(t, 1, roundOf(node), "it was not checked again")
		assert.Equal(t, "true", node.Labels[verify.Label])
	})

	t.Run("a reboot, after which a check fails", func(t *testing.T) {
		require.NoError(t, k.Stop())
		require.NoError(t, k.StopContainers())
		c.until(t, k.Name, "held while it is not Ready", func(node *corev1.Node) bool { return !ready(node) && unverified(node) })
		pod := c.workload(t, k.Name)
		require.NoError(t, k.Break(Faults{Lost: []string{"10.96.0.1"}}))
		k.boots(t, "11111111-1111-4111-8111-111111111111")
		c.staysTainted(t, k.Name, verify.VerdictFailed, "api", []string{string(verify.ReasonTimeout)})
		assert.Empty(t, c.pod(t, pod).Spec.NodeName, "a Pod without toleration was bound to a Node that has not passed since it booted")
		require.NoError(t, k.Break(Faults{}))
		assert.Equal(t, 2, roundOf(c.opens(t, k.Name)))
		require.Eventually(t, func() bool { return c.pod(t, pod).Status.Phase == corev1.PodSucceeded }, settles, 50*time.Millisecond, "then it runs")
	})
	var booted int
	for _, node := range nodesOf(states) {
		if node.Status.NodeInfo.BootID == first.Status.NodeInfo.BootID {
			continue
		}
		booted++
		assert.Equal(t, roundOf(node) != 2, unverified(node), "version %s: taints %v, annotation %s", node.ResourceVersion, node.Spec.Taints, node.Annotations[verify.Annotation])
	}
	assert.Positive(t, booted, "the kubelet must have reported the new boot")

	t.Run("a reboot that is over before the Node stops being ready", func(t *testing.T) {
		require.NoError(t, k.Stop())
		require.NoError(t, k.StopContainers())
		k.boots(t, "22222222-2222-4222-8222-222222222222")
		c.until(t, k.Name, "verified again", func(node *corev1.Node) bool { return !unverified(node) && roundOf(node) == 3 })
	})
}

// boots starts the machine of a kubelet anew, which has this boot ID.
func (k *Kubelet) boots(t *testing.T, bootID string) {
	t.Helper()
	file := filepath.Join(k.folder, "boot_id")
	require.NoError(t, os.WriteFile(file, []byte(bootID+"\n"), 0o600))
	require.NoError(t, k.StartContainers(t.Context()))
	require.NoError(t, k.Start("--boot-id-file="+file))
}

func roundOf(node *corev1.Node) int {
	return verify.ParseProgress(node.Annotations[verify.Annotation]).Round
}

// heartbeat is when the kubelet last said whether it is ready.
func heartbeat(node *corev1.Node) (last time.Time) {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			last = condition.LastHeartbeatTime.Time
		}
	}
	return last
}

func nodesOf(states *versions) (nodes []*corev1.Node) {
	for _, event := range states.all() {
		if node, ok := event.Object.(*corev1.Node); ok && event.Type == watch.Modified {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (c *Cluster) nodeOf(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := c.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return node
}

// until waits until something holds for a Node, and returns it as it is then.
func (c *Cluster) until(t *testing.T, name, what string, holds func(*corev1.Node) bool) (node *corev1.Node) {
	t.Helper()
	require.Eventually(t, func() bool { node = c.nodeOf(t, name); return holds(node) }, settles, 50*time.Millisecond, "node %s must be %s", name, what)
	return node
}

// workload creates a Pod that the scheduler can bind to one Node only.
func (c *Cluster) workload(t *testing.T, node string) (name string) {
	t.Helper()
	pod, err := c.Admin.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "workload-"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node}, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "plain", Image: Image, ImagePullPolicy: corev1.PullNever, Args: []string{"version"}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return pod.Name
}

func (c *Cluster) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.Admin.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}
