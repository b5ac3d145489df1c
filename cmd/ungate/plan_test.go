package ungate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

func node(name string, taints ...corev1.Taint) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", ResourceVersion: "7"}, Spec: corev1.NodeSpec{Taints: taints}}
}

func TestBehindIsTheNodesThatCarryTheGateWhateverItsEffect(t *testing.T) {
	other := policy.Gate("example.com/gate")
	soft := corev1.Taint{Key: string(policy.DefaultGate), Effect: corev1.TaintEffectPreferNoSchedule}
	labelled := node("soft", soft)
	labelled.Labels = map[string]string{"dedicated": "ci"}
	nodes := []corev1.Node{node("free"), node("gated", policy.DefaultGate.Taint()), node("other", other.Taint()), labelled}
	gated := behind(nodes, policy.DefaultGate)
	require.Len(t, gated, 2)
	assert.Equal(t, []string{"gated", "soft"}, []string{gated[0].Name, gated[1].Name})
	assert.NotContains(t, gated[1].Items, "dedicated", "not held in memory")
	assert.Len(t, behind(nodes, other), 1)
	assert.Empty(t, behind(nil, other))
}

func TestANodeMadeAfterGatingHadStoppedIsLate(t *testing.T) {
	stopped := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		created, stopped time.Time
		want             bool
	}{
		"made before":                    {stopped.Add(-time.Second), stopped, false},
		"made in that second":            {stopped, stopped, false},
		"made afterwards":                {stopped.Add(time.Second), stopped, true},
		"it is not known when that was":  {stopped, time.Time{}, false},
		"it is not known when it is new": {time.Time{}, stopped, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("a")
			n.CreationTimestamp = metav1.NewTime(c.created)
			assert.Equal(t, c.want, late(observe.Of(&n), c.stopped))
		})
	}
}

func TestNamesAreListedInOrderAndNotEndlessly(t *testing.T) {
	assert.Equal(t, "a, b", named([]string{"b", "a"}))
	var many []string
	for range 30 {
		many = append(many, "n")
	}
	assert.Contains(t, named(many), "n and 10 more")
}
