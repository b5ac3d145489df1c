package local

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
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

// ofRules are the labels of a Node that gpuRules may set.
func ofRules(node *corev1.Node) map[string]string {
	labels := map[string]string{}
	for key := range gpuLabels {
		if value, is := node.Labels[key]; is {
			labels[key] = value
		}
	}
	return labels
}

// A real kubelet and a real device plugin: what the kubelet reports at each step is its own word, and is checked too.
func TestAGPUNodeKeepsItsLabelsWhileItsDevicePluginIsAway(t *testing.T) {
	log, args := auditing(t)
	c := ForTest(t, args...)
	c.AddForTest(t, "node-1")
	c.installed(t, "--set-json", "policy.labels.rules="+gpuRules)
	k := c.AddForTest(t, gpuNode)
	require.Empty(t, ofRules(c.node(t)), "no plugin has registered, and one may still do so")
	require.NoError(t, k.StartDevices(string(gpus), 2))
	c.hasOfRules(t, gpuLabels)
	require.Eventually(t, func() bool {
		cm, err := c.Admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), store.Name(gpuNode), metav1.GetOptions{})
		if err != nil {
			return false
		}
		found, err := store.Decode([]byte(cm.Data[store.DataKey]), gpuNode)
		return err == nil && found.Derived["gpu.count"].Value == "2"
	}, settles, 50*time.Millisecond)

	require.NoError(t, k.StopDevices())
	require.NoError(t, k.Stop())
	require.NoError(t, c.Admin.CoreV1().Nodes().Delete(t.Context(), gpuNode, metav1.DeleteOptions{}))
	states := c.watchesNode(t, gpuNode)
	r := k.registersAgain(t, log)
	sent := r.Sent.Status.Capacity[gpus]
	assert.True(t, sent.IsZero(), "no plugin has registered: %s", sent.String())
	assert.Empty(t, ofRules(&r.Sent), "the kubelet knows nothing of them")
	require.Eventually(t, func() bool { return len(states.all()) > 0 }, settles, 20*time.Millisecond)
	first := states.all()[0]
	assert.Equal(t, watch.Added, first.Type)
	assert.Equal(t, gpuLabels, ofRules(first.Object.(*corev1.Node)), "in the first version that anybody can see")
	c.reports(t, 0)
	require.NoError(t, k.StartDevices(string(gpus), 2))
	c.reports(t, 2)

	// The kubelet restarts on a Node that has long been ready.
	require.NoError(t, k.StopDevices())
	require.NoError(t, k.Stop())
	c.readySince(t, time.Now().Add(-time.Hour))
	restarted := time.Now()
	require.NoError(t, k.Start("--node-labels=example.com/own=kubelet"))
	c.reports(t, 0)
	for reported := time.Now(); time.Since(reported) < 45*time.Second; time.Sleep(time.Second) { // some reports more
		require.Equal(t, gpuLabels, ofRules(c.node(t)))
	}
	c.reports(t, 0)
	for _, event := range states.all() {
		assert.Equal(t, gpuLabels, ofRules(event.Object.(*corev1.Node)), "no version of the Node lacks a label")
	}
	restartedNode := c.node(t)
	for key, label := range policy.DerivedLabels(restartedNode.Annotations[policy.LabelsAnnotation]) {
		if !label.Until.IsZero() { // the Node never stopped being ready, and so 0 GPUs are believed
			assert.Greater(t, label.Until.Sub(restarted), classify.PluginGrace-2*time.Second, "label %s is held", key)
		}
	}
	t.Logf("ready since %s before the restart (0s: the kubelet was not ready in between), annotation %s",
		max(0, restarted.Sub(readyFrom(restartedNode))).Round(time.Second), restartedNode.Annotations[policy.LabelsAnnotation])

	if os.Getenv("NODEKEEP_LONG_FAULTS") == "" {
		t.Log("not shown, since it takes ten minutes: the labels of a plugin that never returns are removed; NODEKEEP_LONG_FAULTS=1")
		return
	}
	// The Node registers again, and the plugin never returns: GPUs are unknown for five minutes, then the labels are held for five.
	require.NoError(t, k.Stop())
	require.NoError(t, c.Admin.CoreV1().Nodes().Delete(t.Context(), gpuNode, metav1.DeleteOptions{}))
	k.registersAgain(t, log)
	c.reports(t, 0)
	require.Eventually(t, func() bool { return !maps.Equal(gpuLabels, ofRules(c.node(t))) }, 2*classify.PluginGrace+settles, 100*time.Millisecond)
	stayed := time.Since(readyFrom(c.node(t)))
	assert.GreaterOrEqual(t, stayed, 2*classify.PluginGrace)
	t.Logf("the labels were removed %s after the Node became ready", stayed.Round(time.Second))
	c.hasOfRules(t, noGPULabels)
}

func (c *Cluster) node(t *testing.T) *corev1.Node {
	t.Helper()
	node, err := c.Admin.CoreV1().Nodes().Get(t.Context(), gpuNode, metav1.GetOptions{})
	require.NoError(t, err)
	return node
}

// hasOfRules waits until a Node has exactly these of the labels that gpuRules may set.
func (c *Cluster) hasOfRules(t *testing.T, want map[string]string) {
	t.Helper()
	var got map[string]string
	require.Eventually(t, func() bool {
		got = ofRules(c.node(t))
		return maps.Equal(want, got)
	}, settles, 50*time.Millisecond, "node %s must come to have %v; it has %v", gpuNode, want, &got)
}

// reports waits until a kubelet that is ready reports so many GPUs.
func (c *Cluster) reports(t *testing.T, want int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		node := c.node(t)
		have, is := node.Status.Capacity[gpus]
		return is && have.Value() == want && ready(node)
	}, settles, 50*time.Millisecond, "the kubelet of %s must report %d GPUs", gpuNode, want)
}

// readySince makes a Node one that has been ready since a time. Its kubelet keeps that time while it stays ready.
func (c *Cluster) readySince(t *testing.T, since time.Time) {
	t.Helper()
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, since.UTC().Format(time.RFC3339))
	_, err := c.Admin.CoreV1().Nodes().Patch(t.Context(), gpuNode, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	require.NoError(t, err)
}

// readyFrom is when the Node became ready.
func readyFrom(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// versions are those of a Node that a watch has shown.
type versions struct {
	mu     sync.Mutex
	events []watch.Event
}

func (v *versions) all() []watch.Event {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.events
}

// watches keeps every version of a Node, from now on until the test ends.
func (c *Cluster) watchesNode(t *testing.T, name string) *versions {
	t.Helper()
	nodes := c.Admin.CoreV1().Nodes()
	list, err := nodes.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	watcher, err := nodes.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	v := &versions{}
	go func() {
		for event := range watcher.ResultChan() {
			v.mu.Lock()
			v.events = append(v.events, event)
			v.mu.Unlock()
		}
	}()
	return v
}
