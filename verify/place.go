package verify

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Backing is what is behind a Service while ordinary Pods can run on no Node.
type Backing struct {
	Ready int // ready endpoints
	// Placed shows that the Service can be there: one of its Pods is on a Node that is Ready.
	Placed bool
}

// waitsFor reports whether the Service gets endpoints only once a Node with these taints is open.
func (b Backing) waitsFor(taints []corev1.Taint) bool {
	return b.Ready == 0 && !b.Placed && isOpen(taints)
}

// isOpen reports whether ordinary Pods can run on a Node with these taints.
func isOpen(taints []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(taint corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule })
}
