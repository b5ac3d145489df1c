package fleet

import (
	"fmt"
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

func TestTheSeriesByLabelAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewLabelCounts(func() time.Time { return now })
	c.SetKeys([]governance.Key{{Key: "tier"}})
	for i := range 3 * maxValues {
		c.Update(nil, compactNode(fmt.Sprint(i), "1", "1", map[string]string{"tier": fmt.Sprint("v", i)}))
	}
	found := counted(t, c)
	assert.Len(t, found, maxValues+1)
	assert.Equal(t, 2*maxValues, found["tier=other"].nodes)
	for i := range 3 * maxValues {
		c.Update(compactNode(fmt.Sprint(i), "1", "1", map[string]string{"tier": fmt.Sprint("v", i)}), nil)
	}
	for series, item := range counted(t, c) {
		assert.Zero(t, item.nodes, series)
	}
}

func TestAnotherPolicyCountsEveryNodeAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewLabelCounts(func() time.Time { return now })
	a := compactNode("a", "1", "2", map[string]string{"tier": "gpu", "rack": "r1"})
	c.Update(nil, a)
	assert.Empty(t, counted(t, c), "nothing is governed")

	assert.True(t, c.SetKeys([]governance.Key{{Key: "tier"}}))
	c.Update(nil, a)
	now = now.Add(10 * time.Second)
	assert.False(t, c.SetKeys([]governance.Key{{Key: "tier"}}), "the same keys")
	assert.True(t, c.SetKeys([]governance.Key{{Key: "tier"}, {Key: "rack"}}))
	c.Update(nil, a)
	now = now.Add(10 * time.Second)
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {1, 20, 40}, "rack=r1": {1, 10, 20}}, counted(t, c), "what was added up stays")
	assert.False(t, c.SetKeys([]governance.Key{{Key: "rack"}}), "one less needs no new count")
	assert.Len(t, counted(t, c), 1)
}
