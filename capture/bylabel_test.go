package capture

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
)

type seriesOf struct {
	nodes                int
	seconds, coreSeconds float64
}

// counted returns the series of a registry with this collector.
func counted(t *testing.T, item prometheus.Collector) map[string]seriesOf {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(item))
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]seriesOf{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := metric.GetLabel()[0].GetValue() + "=" + metric.GetLabel()[1].GetValue()
			entry := found[name]
			switch family.GetName() {
			case "nodekeep_nodes_by_label":
				entry.nodes = int(metric.GetGauge().GetValue())
			case "nodekeep_node_seconds_total":
				entry.seconds = metric.GetCounter().GetValue()
			case "nodekeep_cpu_core_seconds_total":
				entry.coreSeconds = metric.GetCounter().GetValue()
			}
			found[name] = entry
		}
	}
	return found
}

func compactNode(name, uid, cpu string, labels map[string]string) *observe.CompactNode {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: "1", Labels: labels}}
	if cpu != "" {
		node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	return observe.CompactNodeOf(observe.FromNode(node))
}

func TestNodesAreCountedByLabelForAsLongAsTheyHaveIt(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newObservations(func([]corev1.Taint) bool { return false }, func(time.Duration) {}, func() time.Time { return now })
	s.labelCounts.SetKeys([]governance.Key{{Key: "tier", Values: []string{"gpu"}}})
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {}}, counted(t, s.labelCounts), "a listed value is there from the start")

	s.observeLive(compactNode("a", "1", "4", map[string]string{"tier": "gpu", "rack": "1"}))
	s.observeLive(compactNode("b", "1", "2500m", map[string]string{"tier": "gpu"}))
	s.observeLive(compactNode("c", "1", "", map[string]string{"rack": "1"}))
	now = now.Add(10 * time.Second)
	s.observeLive(compactNode("a", "1", "4", map[string]string{"tier": "gpu", "rack": "1"})) // a heartbeat
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {2, 20, 65}}, counted(t, s.labelCounts))

	s.observeLive(compactNode("a", "1", "8", map[string]string{"tier": "gpu", "rack": "1"})) // no rule looks at its CPU
	s.observeLive(compactNode("b", "1", "2500m", map[string]string{"tier": "new"}))
	now = now.Add(10 * time.Second)
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {1, 30, 145}, "tier=new": {1, 10, 25}}, counted(t, s.labelCounts))

	s.observeDeleted(compactNode("a", "1", "9", map[string]string{"tier": "other-at-last"}))
	s.observeLive(compactNode("b", "2", "1", map[string]string{"tier": "new"})) // deleted and registered again
	now = now.Add(10 * time.Second)
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {0, 30, 145}, "tier=new": {1, 20, 35}}, counted(t, s.labelCounts))

	now = now.Add(-time.Hour)
	assert.InDelta(t, 20, counted(t, s.labelCounts)["tier=new"].seconds, 10, "a counter does not shrink with the clock")
}
