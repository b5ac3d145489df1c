package plan

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestAPlanStaysAsItIsWhenAPartOfItIsTaken(t *testing.T) {
	taints := []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoSchedule}}
	whole := Plan{Edits: SetTaints(Derivation, false, taints...), Derived: taints}
	before := slices.Clone(whole.Edits)

	rest, dropped := whole.Without(func(set Setting) bool { return set == before[0].Setting })

	assert.True(t, dropped)
	assert.Equal(t, before[1:], rest.Edits)
	assert.Equal(t, taints[1:], rest.Derived)
	assert.Equal(t, before, whole.Edits)
}
