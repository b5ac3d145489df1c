package local

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

const (
	gpus    corev1.ResourceName = "nvidia.com/gpu"
	gpuNode string              = "gpu-1"
)

// gpuRules are policy.labels.rules. They set gpuLabels on a Node with two GPUs, and noGPULabels where there are none.
const gpuRules = `[
	{"name": "gpu", "when": {"capacity": {"nvidia.com/gpu": ">=1"}}, "set": {"accelerator": "nvidia-gpu", "gpu.count": "{capacity.nvidia.com/gpu}"}},
	{"name": "dual", "when": {"capacity": {"nvidia.com/gpu": ">=2"}}, "set": {"hardware.tier": "dual-gpu"}},
	{"name": "rest", "when": {"names": ["gpu-*"]}, "set": {"hardware.tier": "standard"}}]`

var (
	gpuLabels   = map[string]string{"accelerator": "nvidia-gpu", "gpu.count": "2", "hardware.tier": "dual-gpu"}
	noGPULabels = map[string]string{"hardware.tier": "standard"}
)

// ofRules returns the labels of a Node that gpuRules may set.
func ofRules(node *corev1.Node) map[string]string {
	labels := map[string]string{}
	for key := range gpuLabels {
		if value, ok := node.Labels[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

// A real kubelet and a real device plugin: what the kubelet reports at each step is its own word, and is checked too.
func TestAGPUNodeKeepsItsLabelsWhileItsDevicePluginIsAway(t *testing.T) {
	c := forTest(t)
	c.add(t, "node-1")
	c.installed(t, "--set-json", "policy.labels.rules="+gpuRules)
	k := c.add(t, gpuNode)
	require.Empty(t, ofRules(c.Node(t, gpuNode)), "no plugin has registered, and one may still do so")
	k.startDevices(t, string(gpus), 2)
	c.hasOfRules(t, gpuLabels)
	harness.Eventually(t, func() bool {
		found, ok := c.Record(t, gpuNode)
		return ok && found.RuleLabels["gpu.count"].Value == "2"
	}, settles, 50*time.Millisecond)

	k.stopDevices(t)
	k.losesNode(t)
	states := c.watchesNode(t, gpuNode)
	r := k.registersAgain(t)
	sent := r.Sent.Status.Capacity[gpus]
	assert.True(t, sent.IsZero(), "no plugin has registered: %s", sent.String())
	assert.Empty(t, ofRules(&r.Sent), "the kubelet knows nothing of them")
	first := states.upTo(t, r.stored(t))[0]
	assert.Equal(t, gpuLabels, ofRules(first), "in the first version that anybody can see")
	c.reports(t, 0)
	k.startDevices(t, string(gpus), 2)
	c.reports(t, 2)

	// The kubelet restarts on a Node that has long been ready.
	k.stopDevices(t)
	k.stop(t)
	c.readySince(t, time.Now().Add(-time.Hour))
	restarted := time.Now()
	k.start(t, "--node-labels=example.com/own=kubelet")
	c.reports(t, 0)
	for reported := time.Now(); time.Since(reported) < 45*time.Second; time.Sleep(time.Second) { // some reports more
		require.Equal(t, gpuLabels, ofRules(c.Node(t, gpuNode)))
	}
	c.reports(t, 0)
	restartedNode := c.Node(t, gpuNode)
	for _, node := range states.upTo(t, restartedNode) {
		assert.Equal(t, gpuLabels, ofRules(node), "no version of the Node lacks a label")
	}
	for key, label := range policy.RuleLabelsOf(restartedNode.Annotations[policy.LabelsAnnotation]) {
		if !label.End.IsZero() { // the Node never stopped being ready, and so 0 GPUs are believed
			assert.Greater(t, label.End.Sub(restarted), classify.PluginGrace-2*time.Second, "label %s is held", key)
		}
	}
	t.Logf("ready since %s before the restart (0s: the kubelet was not ready in between), annotation %s",
		max(0, restarted.Sub(readyFrom(restartedNode))).Round(time.Second), restartedNode.Annotations[policy.LabelsAnnotation])

	if os.Getenv("NODEKEEP_LONG_FAULTS") == "" {
		t.Log("not shown, since it takes ten minutes: the labels of a plugin that never returns are removed; NODEKEEP_LONG_FAULTS=1")
		return
	}
	// The Node registers again, and the plugin never returns: GPUs are unknown for five minutes, then the labels are held for five.
	k.losesNode(t)
	k.registersAgain(t)
	c.reports(t, 0)
	harness.Eventually(t, func() bool { return !maps.Equal(gpuLabels, ofRules(c.Node(t, gpuNode))) }, 2*classify.PluginGrace+settles, 100*time.Millisecond)
	stayed := time.Since(readyFrom(c.Node(t, gpuNode)))
	assert.GreaterOrEqual(t, stayed, 2*classify.PluginGrace)
	t.Logf("the labels were removed %s after the Node became ready", stayed.Round(time.Second))
	c.hasOfRules(t, noGPULabels)
}

// hasOfRules waits until the Node has exactly these of the labels that gpuRules may set.
func (c *cluster) hasOfRules(t *testing.T, want map[string]string) {
	t.Helper()
	c.await(t, gpuNode, fmt.Sprintf("labeled %v", want), func(node *corev1.Node) bool { return maps.Equal(want, ofRules(node)) })
}

// reports waits until a kubelet that is ready reports so many GPUs.
func (c *cluster) reports(t *testing.T, want int64) {
	t.Helper()
	c.await(t, gpuNode, fmt.Sprintf("one with %d GPUs", want), func(node *corev1.Node) bool {
		current, reported := node.Status.Capacity[gpus]
		return reported && current.Value() == want && ready(node)
	})
}

// readySince makes a Node one that has been ready since a time. Its kubelet keeps that time while it stays ready.
func (c *cluster) readySince(t *testing.T, start time.Time) {
	t.Helper()
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, start.UTC().Format(time.RFC3339))
	_, err := c.Admin.CoreV1().Nodes().Patch(t.Context(), gpuNode, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	require.NoError(t, err)
}

// readyFrom returns when the Node became ready.
func readyFrom(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
