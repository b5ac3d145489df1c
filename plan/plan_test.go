package plan

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestAPlanStaysAsItIsWhenAPartOfItIsTaken(t *testing.T) {
	taints := []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoSchedule}}
	whole := Plan{Edits: TaintEdits(CauseDerivedTaint, false, taints...), DerivedTaints: taints}
	prev := slices.Clone(whole.Edits)

	rest, dropped := whole.WithoutItems(func(desired DesiredItem) bool { return desired == prev[0].DesiredItem })

	assert.True(t, dropped)
	assert.Equal(t, prev[1:], rest.Edits)
	assert.Equal(t, taints[1:], rest.DerivedTaints)
	assert.Equal(t, prev, whole.Edits)
}
