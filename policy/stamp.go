package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// The annotations that nodekeep writes on a Node.
const (
	// StampAnnotation says what nodekeep set on this very Node object, see [record.Stamp].
	StampAnnotation = "nodekeep.dev/restored"
	// TaintsAnnotation lists the taints of the Node that are derived from its labels, see [DerivedTaints]. It is written in the same
	// request as these. Only what it lists is removed with the label.
	TaintsAnnotation = "nodekeep.dev/taints"
)

// totalAnnotationsLimit is what the annotations of an object may have together, in bytes
// (TotalAnnotationSizeLimitB of k8s.io/apimachinery); beyond it the API server rejects the Node.
const totalAnnotationsLimit = 256 << 10

// AnnotationBytes is the size of an object's annotations, keys and values, without nodekeep's own.
func AnnotationBytes(annotations map[string]string) (bytes int) {
	for key, value := range annotations {
		if key != StampAnnotation && key != TaintsAnnotation {
			bytes += len(key) + len(value)
		}
	}
	return bytes
}

// Annotations are what nodekeep writes on an object that has so many bytes of other annotations. An annotation is empty where there is no
// room for it: a Node without one is better than no Node. A removal on it may be taken for a loss then, and undone once, and
// a derived taint stays when its label goes.
func Annotations(stamp record.Stamp, derived []corev1.Taint, others int) (stamped, taints string) {
	taints, stamped = Shown(derived), stamp.String()
	if list := len(TaintsAnnotation) + len(taints); others+list > totalAnnotationsLimit {
		taints = ""
	} else if taints != "" {
		others += list
	}
	if others+len(StampAnnotation)+len(stamped) > totalAnnotationsLimit {
		stamped = ""
	}
	return stamped, taints
}

// Shown are taints as kubectl taint writes them, sorted and separated by commas.
func Shown(taints []corev1.Taint) string {
	written := make([]string, len(taints))
	for i, taint := range taints {
		written[i] = taint.ToString()
	}
	slices.Sort(written)
	return strings.Join(written, ",")
}

// DerivedTaints reads [TaintsAnnotation]: taints as kubectl taint writes them, separated by commas.
func DerivedTaints(annotation string) (taints []corev1.Taint) {
	for _, text := range listed(annotation) {
		taints = append(taints, parseTaint(text))
	}
	return taints
}
