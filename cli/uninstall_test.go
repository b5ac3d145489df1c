package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/policy"
)

func withTaints(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", ResourceVersion: "7", Labels: map[string]string{"dedicated": "ci"}}, Spec: corev1.NodeSpec{Taints: taints}}
}

func TestNodesThatCarryTheGateAreFreedWhateverItsEffect(t *testing.T) {
	o := policy.Gate("example.com/gate")
	soft := corev1.Taint{Key: string(policy.DefaultGate), Effect: corev1.TaintEffectPreferNoSchedule}
	client := fake.NewClientset(withTaints("free"), withTaints("gated", policy.DefaultGate.Taint()), withTaints("other", o.Taint()), withTaints("soft", soft))
	for gate, want := range map[policy.Gate][]string{policy.DefaultGate: {"gated", "soft"}, o: {"other"}, "example.com/none": nil} {
		u := &stopping{session: &session{Cluster: &cluster.Cluster{Client: client}, gate: gate}}
		gated, err := u.nodesToFree(t.Context(), u.gateRemoval(time.Time{}))
		require.NoError(t, err)
		assert.Equal(t, want, gated)
	}
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
			n := withTaints("a")
			n.CreationTimestamp = metav1.NewTime(c.created)
			assert.Equal(t, c.want, createdAfter(n, c.stopped))
		})
	}
}
