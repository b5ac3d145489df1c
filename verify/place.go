package verify

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// Backing is what is behind a Service while ordinary Pods can run on no Node.
type Backing struct {
	Ready int // ready endpoints
	// Placed shows that the Service can be there. One of its Pods is on a Node that is Ready, or such a Node is open for it.
	Placed bool
	// Waiting are the tolerations of each of its Pods that have no place.
	Waiting [][]corev1.Toleration
}

// waitsFor reports whether the Service gets endpoints only once a Node with these taints is open. One without Pods waits for a Node that is open for
// ordinary Pods: what makes its Pods may need one.
func (b Backing) waitsFor(taints []corev1.Taint) bool {
	if b.Ready > 0 || b.Placed {
		return false
	}
	if len(b.Waiting) == 0 {
		return Tolerate(nil, taints)
	}
	return slices.ContainsFunc(b.Waiting, func(tolerations []corev1.Toleration) bool { return Tolerate(tolerations, taints) })
}

// Tolerate reports whether a Pod can run on a Node with these taints.
func Tolerate(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(toleration corev1.Toleration) bool {
			return toleration.ToleratesTaint(logr.Discard(), &taint, false)
		})
	})
}
