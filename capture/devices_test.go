package capture

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

const (
	rtxRule = "labels:\n  rules:\n" +
		"  - {name: rtx, when: {devices: {driver: gpu.nvidia.com, attributes: {productName: \"*RTX*\"}}}, set: {gpu: rtx}}\n" +
		"  - {name: none, set: {gpu: none}}\n"
	nicRule = "labels:\n  rules:\n  - {name: nic, when: {devices: {driver: nic.example.com}}, set: {nic: fast}}\n"
)

// gpuSlice returns the only slice of the pool of a Node.
func gpuSlice(name, node, model string) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"productName": {StringValue: &model}}}},
	}}
}

// devicesCluster is a cluster whose leader follows devices.
type devicesCluster struct {
	*publishedCluster
	slices *fake.Clientset
}

func newDevicesCluster(t *testing.T, sections string, denied error) *devicesCluster {
	w := &devicesCluster{publishedCluster: newPublishedCluster(t, sections, denied)}
	w.leads(func(o *Options) {
		w.slices = o.Client.(*fake.Clientset)
		w.slices.PrependReactor("list", "resourceslices", w.list)
	})
	w.runs(w.leader.devices.watchObjects)
	return w
}

func TestSlicesAreReadWhileRulesLookAtDevices(t *testing.T) {
	w := newDevicesCluster(t, tierRule, nil)
	slices := w.slices.ResourceV1().ResourceSlices()
	_, err := slices.Create(t.Context(), gpuSlice("s1", "n1", "GeForce RTX 5070"), metav1.CreateOptions{})
	require.NoError(t, err)
	w.becomes(labels{"tier": "gold"})
	assert.Zero(t, w.reads(), "no rule looks at devices")

	w.follows(rtxRule)
	w.becomes(labels{"gpu": "rtx"})
	require.Equal(t, 1, w.reads())
	w.leader.EnqueueAll()
	w.stays(labels{"gpu": "rtx"})
	assert.Equal(t, 1, w.reads(), "the policy looks at the same")

	patched := w.patches()
	republished := gpuSlice("s1", "n1", "GeForce RTX 5070")
	republished.Spec.Pool.Generation = 2
	_, err = slices.Update(t.Context(), republished, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = slices.Create(t.Context(), gpuSlice("s2", "unknown", "GeForce RTX 5070"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.knows("unknown") }, 3*time.Minute, time.Millisecond)
	assert.Zero(t, w.leader.queue.Len(), "nothing that rules use has changed, of any Node that there is")

	require.NoError(t, slices.Delete(t.Context(), "s1", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return !w.knows("n1") }, 3*time.Minute, time.Millisecond)
	w.stays(labels{"gpu": "rtx"}) // held
	w.passes(4 * time.Minute)
	w.leader.Enqueue("n1")
	w.stays(labels{"gpu": "rtx"})
	_, err = slices.Create(t.Context(), republished, metav1.CreateOptions{}) // the driver was restarted
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.knows("n1") }, 3*time.Minute, time.Millisecond)
	assert.Eventually(t, func() bool { // the Node is enqueued a moment after its devices are known
		return len(w.leader.works()) == 0 && !strings.Contains(w.node().Annotations[policy.LabelsAnnotation], "until")
	}, 3*time.Minute, time.Millisecond, "it is held no longer")
	w.stays(labels{"gpu": "rtx"})
	assert.Equal(t, patched+2, w.patches(), "held, and then not held any more")

	require.NoError(t, slices.Delete(t.Context(), "s1", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return !w.knows("n1") }, 3*time.Minute, time.Millisecond)
	w.stays(labels{"gpu": "rtx"})
	w.passes(classify.PluginGrace + time.Second)
	w.leader.Enqueue("n1")
	w.becomes(labels{"gpu": "none"})

	w.follows(nicRule)
	require.Eventually(t, func() bool { return w.reads() == 2 }, 3*time.Minute, time.Millisecond, "other drivers are read anew")
	w.follows(tierRule)
	require.Eventually(t, func() bool { return !w.knows("unknown") }, 3*time.Minute, time.Millisecond, "what nothing looks at is not kept")
	w.becomes(labels{"tier": "gold"})
}

func (w *devicesCluster) patches() (count int) {
	for _, write := range w.leader.writes {
		if strings.HasPrefix(write, "patch ") {
			count++
		}
	}
	return count
}

// knows reports whether devices of a Node are known.
func (w *devicesCluster) knows(node string) bool {
	w.leader.devices.mu.Lock()
	defer w.leader.devices.mu.Unlock()
	_, ok := w.leader.devices.byNode[node]
	return ok
}

func TestWithoutTheRightRulesAboutDevicesDecideNothingAndNewRulesOnlyAdd(t *testing.T) {
	for name, denied := range map[string]error{
		"the right is missing":      apierrors.NewForbidden(resourcev1.Resource("resourceslices"), "", nil),
		"the API server is too old": apierrors.NewNotFound(resourcev1.Resource("resourceslices"), ""),
	} {
		t.Run(name, func(t *testing.T) {
			w := newDevicesCluster(t, tierRule, denied)
			w.becomes(labels{"tier": "gold"})
			w.follows(rtxRule)
			require.Eventually(t, func() bool { return w.reads() > 2 }, 3*time.Minute, time.Millisecond, "it is tried again")
			w.stays(labels{"tier": "gold"})
			assert.Equal(t, 1, w.log.count("rules look at devices, and the resource slices cannot be read"))
			reported := 0
			for len(w.leader.events.Events) > 0 {
				if strings.Contains(<-w.leader.events.Events, FactsUnknown) {
					reported++
				}
			}
			assert.Equal(t, 1, reported)
			assert.False(t, w.leader.devices.known(w.leader.Policy()))

			w.mu.Lock()
			w.denied = nil
			w.mu.Unlock()
			_, err := w.slices.ResourceV1().ResourceSlices().Create(t.Context(), gpuSlice("s1", "n1", "RTX"), metav1.CreateOptions{})
			require.NoError(t, err)
			require.Eventually(t, func() bool { return w.leader.devices.known(w.leader.Policy()) }, 3*time.Minute, time.Millisecond)
			w.becomes(labels{"gpu": "rtx"})
		})
	}
}

func TestDevicesOfNewRulesAreNotThoseOfTheOldOnes(t *testing.T) {
	pf := newPublishedFacts(deviceResource())
	rtx, nic := loadPolicy(t, rtxRule), loadPolicy(t, nicRule)
	unknown := observe.Devices{}
	assert.True(t, pf.known(loadPolicy(t, "")), "nothing is looked at")
	assert.Equal(t, unknown, pf.factsOf("n1", loadPolicy(t, "")))
	pf.set("n1", []any{observe.SliceOf(gpuSlice("s", "n1", "RTX"), rtx.LabelRules().Drivers())})
	assert.Equal(t, unknown, pf.factsOf("n1", rtx), "not all slices were read")
	pf.setRead(rtx.LabelRules().Drivers())
	assert.NotEqual(t, unknown, pf.factsOf("n1", rtx))
	assert.Equal(t, observe.DevicesOf(nil), pf.factsOf("n2", rtx), "a Node without devices")
	assert.Equal(t, unknown, pf.factsOf("n1", nic))
	assert.False(t, pf.known(nic))
	pf.forget()
	assert.Equal(t, unknown, pf.factsOf("n1", rtx))
}

func TestASliceThatCannotBeReadLeavesTheProcessAlone(t *testing.T) {
	r := newCluster(t, rtxRule).leader()
	r.devices.strip = func(any, classify.UsedDrivers) publication { panic("cannot read") }
	slim, ok := r.devices.stripped(r.Controller, gpuSlice("s", "n1", "RTX"), nil).(*observe.Slice)
	require.True(t, ok)
	assert.Equal(t, "n1", slim.Node())
	assert.Equal(t, []string{"gpu.nvidia.com"}, observe.DevicesOf([]*observe.Slice{slim}).Join(classify.Facts{}).Incomplete)
	assert.Equal(t, 1, int(valueOf(t, r.Metrics.errors.WithLabelValues(panicked))))
}
