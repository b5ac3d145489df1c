package ungate

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

func node(name string, taints ...corev1.Taint) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", ResourceVersion: "7"}, Spec: corev1.NodeSpec{Taints: taints}}
}

func TestPatchTakesTheGateOffThatObjectInThatStateAndNothingElse(t *testing.T) {
	gate := policy.DefaultGate.Taint()
	withValue := corev1.Taint{Key: gate.Key, Value: "x", Effect: corev1.TaintEffectNoExecute}
	disk := corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	for name, c := range map[string]struct {
		taints []corev1.Taint
		want   string
	}{
		"the gate alone":              {[]corev1.Taint{gate}, `{"metadata":{"uid":"u-1","resourceVersion":"7"},"spec":{"taints":null}}`},
		"every copy of it":            {[]corev1.Taint{gate, withValue}, `{"metadata":{"uid":"u-1","resourceVersion":"7"},"spec":{"taints":null}}`},
		"a taint beside it is kept":   {[]corev1.Taint{disk, gate}, `{"metadata":{"uid":"u-1","resourceVersion":"7"},"spec":{"taints":[{"key":"maintenance","value":"disk","effect":"NoExecute"}]}}`},
		"with the time of its adding": {[]corev1.Taint{gate, {Key: "a", Effect: "NoExecute", TimeAdded: &metav1.Time{Time: time.Unix(0, 0).UTC()}}}, `{"metadata":{"uid":"u-1","resourceVersion":"7"},"spec":{"taints":[{"key":"a","effect":"NoExecute","timeAdded":"1970-01-01T00:00:00Z"}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("a", c.taints...)
			patch, err := Patch(&n, policy.DefaultGate)
			require.NoError(t, err)
			assert.True(t, json.Valid(patch))
			assert.JSONEq(t, c.want, string(patch))
			assert.Equal(t, c.taints, n.Spec.Taints, "what was read is left as it is")
		})
	}
}

func TestBehindIsTheNodesThatCarryTheGateWhateverItsEffect(t *testing.T) {
	other := policy.Gate("example.com/gate")
	soft := corev1.Taint{Key: string(policy.DefaultGate), Effect: corev1.TaintEffectPreferNoSchedule}
	full := node("soft", soft)
	full.Status.Images = make([]corev1.ContainerImage, 50)
	nodes := []corev1.Node{node("free"), node("gated", policy.DefaultGate.Taint()), node("other", other.Taint()), full}
	gated := behind(nodes, policy.DefaultGate)
	require.Len(t, gated, 2)
	assert.Equal(t, []string{"gated", "soft"}, []string{gated[0].Name, gated[1].Name})
	assert.Empty(t, gated[1].Status.Images, "not held in memory")
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
			assert.Equal(t, c.want, late(&n, c.stopped))
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
