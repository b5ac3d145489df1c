package capture

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

func counted(b *byLabel) map[string]seriesOf {
	found := map[string]seriesOf{}
	b.each(func(key, value string, nodes int, seconds, coreSeconds float64) {
		found[key+"="+value] = seriesOf{nodes, seconds, coreSeconds}
	})
	return found
}

func slimNode(name, uid, cpu string, labels map[string]string) *observe.Slim {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: "1", Labels: labels}}
	if cpu != "" {
		node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	return observe.SlimOf(observe.Of(node))
}

func TestNodesAreCountedByLabelForAsLongAsTheyHaveIt(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newObservations(func([]corev1.Taint) bool { return false }, func(time.Duration) {}, func() time.Time { return now })
	s.labels.govern([]governance.Key{{Key: "tier", Values: []string{"gpu"}}})
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {}}, counted(s.labels), "a listed value is there from the start")

	s.lives(slimNode("a", "1", "4", map[string]string{"tier": "gpu", "rack": "1"}))
	s.lives(slimNode("b", "1", "2500m", map[string]string{"tier": "gpu"}))
	s.lives(slimNode("c", "1", "", map[string]string{"rack": "1"}))
	now = now.Add(10 * time.Second)
	s.lives(slimNode("a", "1", "4", map[string]string{"tier": "gpu", "rack": "1"})) // a heartbeat
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {2, 20, 65}}, counted(s.labels))

	s.lives(slimNode("a", "1", "8", map[string]string{"tier": "gpu", "rack": "1"})) // no rule looks at its CPU
	s.lives(slimNode("b", "1", "2500m", map[string]string{"tier": "new"}))
	now = now.Add(10 * time.Second)
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {1, 30, 145}, "tier=new": {1, 10, 25}}, counted(s.labels))

	s.went(slimNode("a", "1", "9", map[string]string{"tier": "other-at-last"}))
	s.lives(slimNode("b", "2", "1", map[string]string{"tier": "new"})) // deleted and registered again
	now = now.Add(10 * time.Second)
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {0, 30, 145}, "tier=new": {1, 20, 35}}, counted(s.labels))

	now = now.Add(-time.Hour)
	assert.InDelta(t, 20, counted(s.labels)["tier=new"].seconds, 10, "a counter does not shrink with the clock")
}

func TestTheSeriesByLabelAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newObservations(func([]corev1.Taint) bool { return false }, func(time.Duration) {}, func() time.Time { return now })
	s.labels.govern([]governance.Key{{Key: "tier"}})
	for i := range 3 * maxValues {
		s.lives(slimNode(fmt.Sprint(i), "1", "1", map[string]string{"tier": fmt.Sprint("v", i)}))
	}
	found := counted(s.labels)
	assert.Len(t, found, maxValues+1)
	assert.Equal(t, 2*maxValues, found["tier=other"].nodes)
	for i := range 3 * maxValues {
		s.went(slimNode(fmt.Sprint(i), "1", "1", nil))
	}
	for series, of := range counted(s.labels) {
		assert.Zero(t, of.nodes, series)
	}
}

func TestAnotherPolicyCountsEveryNodeAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newByLabel(func() time.Time { return now })
	a := slimNode("a", "1", "2", map[string]string{"tier": "gpu", "rack": "r1"})
	b.replaced(nil, a)
	assert.Empty(t, counted(b), "nothing is governed")

	assert.True(t, b.govern([]governance.Key{{Key: "tier"}}))
	b.replaced(nil, a)
	now = now.Add(10 * time.Second)
	assert.False(t, b.govern([]governance.Key{{Key: "tier"}}), "the same keys")
	assert.True(t, b.govern([]governance.Key{{Key: "tier"}, {Key: "rack"}}))
	b.replaced(nil, a)
	now = now.Add(10 * time.Second)
	assert.Equal(t, map[string]seriesOf{"tier=gpu": {1, 20, 40}, "rack=r1": {1, 10, 20}}, counted(b), "what was added up stays")
	assert.False(t, b.govern([]governance.Key{{Key: "rack"}}), "one less needs no new count")
	assert.Len(t, counted(b), 1)
}
