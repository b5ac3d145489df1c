package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestThePatchThatLiftsTheGateRemovesItFromThatObjectInThatStateAndNothingElse(t *testing.T) {
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
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u-1", ResourceVersion: "7"}, Spec: corev1.NodeSpec{Taints: c.taints}}
			patch, err := PatchFor(observe.Of(node), Change{LiftGate: true}, policy.DefaultGate)
			require.NoError(t, err)
			assert.JSONEq(t, c.want, string(patch))
			assert.Equal(t, c.taints, node.Spec.Taints, "what was read is left as it is")
		})
	}
}

// Were it listed, the record would take an operator's rollback for nodekeep's own change, and capture would undo it.
func TestTheStampDoesNotListWhatAnOperatorsCommandChanges(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u-1", ResourceVersion: "7", Labels: map[string]string{"b": "1", "c": "1"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "t", Value: "old", Effect: corev1.TaintEffectNoSchedule}}},
	}
	change := Change{
		ByClient: true, Give: map[string]string{"a": "1"}, Correct: map[string]string{"b": "2", "t:NoSchedule": "new"}, Remove: []string{"c"},
		Stamp: record.Stamp{}.With(map[string]string{"c": "1"}, 3),
	}
	patch, err := PatchFor(observe.Of(node), change, policy.DefaultGate)
	require.NoError(t, err)
	assert.JSONEq(t, `{"metadata":{"uid":"u-1","resourceVersion":"7","labels":{"a":"1","b":"2","c":null}},
		"spec":{"taints":[{"key":"t","value":"new","effect":"NoSchedule"}]}}`, string(patch))
}
