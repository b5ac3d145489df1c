package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Gate is the key of the taint that keeps workloads off a Node while labels or taints are still missing.
type Gate string

// DefaultGate is the gate where nothing else is configured.
const DefaultGate Gate = "nodekeep.dev/restoring"

// Taint returns the gate as nodekeep puts it on.
func (g Gate) Taint() corev1.Taint {
	return corev1.Taint{Key: string(g), Effect: corev1.TaintEffectNoSchedule}
}

// Matches reports whether a taint is the gate. Only the key decides, because a kubelet's configuration may have added it with a value.
func (g Gate) Matches(taint corev1.Taint) bool { return taint.Key == string(g) }

// Present reports whether the gate is among the taints.
func (g Gate) Present(taints []corev1.Taint) bool { return slices.ContainsFunc(taints, g.Matches) }

// Holds reports whether the gate keeps workloads off: a copy of it that is a mere preference does not.
func (g Gate) Holds(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return g.Matches(taint) && taint.Effect != corev1.TaintEffectPreferNoSchedule
	})
}

// RemoveFrom returns a copy of taints that lacks every copy of the gate.
func (g Gate) RemoveFrom(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), g.Matches)
}
