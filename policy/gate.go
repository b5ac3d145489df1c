package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// GateKey is the taint that keeps workloads off a Node while something it should carry is still missing.
const GateKey = "nodekeep.dev/restoring"

// Gate is the taint as nodekeep puts it on.
func Gate() corev1.Taint {
	return corev1.Taint{Key: GateKey, Effect: corev1.TaintEffectNoSchedule}
}

// IsGate reports whether a taint is the gate; the key alone decides, since a kubelet's configuration
// may have put it on with a value.
func IsGate(taint corev1.Taint) bool { return taint.Key == GateKey }

// Gated reports whether the gate is among the taints.
func Gated(taints []corev1.Taint) bool { return slices.ContainsFunc(taints, IsGate) }

// WithoutGate is a copy of taints that lacks every copy of the gate.
func WithoutGate(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), IsGate)
}

// GateHolds reports whether the gate keeps workloads off: a copy of it that is a mere preference does not.
func GateHolds(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return IsGate(taint) && taint.Effect != corev1.TaintEffectPreferNoSchedule
	})
}
