package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"nodekeep.dev/nodekeep/record"
)

// The annotations that nodekeep writes on a Node.
const (
	// StampAnnotation says what nodekeep set on this very Node object, see [record.Stamp].
	StampAnnotation = "nodekeep.dev/restored"
	// TaintsAnnotation lists the taints of the Node that are derived from its labels, see [DerivedTaints]. It is written in the same
	// request as these. Only what it lists is removed with the label.
	TaintsAnnotation = "nodekeep.dev/taints"
	// LabelsAnnotation lists the Node's labels that rules have set, and the items that rules keep off it, see [RuleLabelsOf]. The same
	// request writes it and these changes. Rules change or remove only what it lists.
	LabelsAnnotation = "nodekeep.dev/labels"
)

// totalAnnotationsLimit is the limit of an object's annotations together, in bytes. Beyond it the API server rejects the Node.
const totalAnnotationsLimit = validation.TotalAnnotationSizeLimitB

// AnnotationBytes returns the size of an object's annotations, keys and values, without nodekeep's own.
func AnnotationBytes(annotations map[string]string) (bytes int) {
	for key, value := range annotations {
		if key != StampAnnotation && key != TaintsAnnotation && key != LabelsAnnotation {
			bytes += len(key) + len(value)
		}
	}
	return bytes
}

// ownReserve is left free of restored annotations for nodekeep's own. A stamp of some hundred items is below it.
const ownReserve = 64 << 10

// AnnotationContent is what nodekeep says of a Node object in its annotations.
type AnnotationContent struct {
	Stamp  record.Stamp
	Taints []corev1.Taint              // derived ones
	Labels map[string]record.RuleLabel // that rules have set, and items that they have removed
}

// MaxKubeletItems is how many labels and taints of a kubelet's own a stamp lists. Of a Node with more it lists none: a kubelet must not fill the stamp.
const MaxKubeletItems = 64

// Annotations returns what nodekeep writes on an object that has so many bytes of other annotations, by key. An annotation is left out if it is
// empty or has no room. A Node without one is better than no Node.
//   - Without a stamp, a removal may be taken for a loss, and undone once.
//   - A derived taint that is not listed stays when its label is removed.
//   - A label that is not listed counts as an operator's, so no rule label is set then.
func (o AnnotationContent) Annotations(used int) map[string]string {
	annotations := map[string]string{}
	for _, row := range []struct{ key, value string }{{LabelsAnnotation, listedLabels(o.Labels)}, {TaintsAnnotation, Shown(o.Taints)}, {StampAnnotation, o.Stamp.String()}} {
		if size := len(row.key) + len(row.value); row.value != "" && used+size <= totalAnnotationsLimit {
			annotations[row.key] = row.value
			used += size
		}
	}
	return annotations
}

// RoomFor reports whether the list of labels fits on an object with so many bytes of other annotations. It estimates high.
func RoomFor(labels map[string]record.RuleLabel, used int) bool {
	const names = 110 // of JSON, and since when, in addition to a key, a value and a rule
	used += len(LabelsAnnotation)
	for key, label := range labels {
		used += names + len(key) + len(label.Value) + len(label.Rule)
	}
	return used <= totalAnnotationsLimit
}

// listedLabels returns the value of [LabelsAnnotation]. Equal maps have equal bytes.
func listedLabels(ruleLabels map[string]record.RuleLabel) string {
	if len(ruleLabels) == 0 {
		return ""
	}
	value, err := json.Marshal(ruleLabels)
	if err != nil {
		panic("marshal labels of rules: " + err.Error()) // cannot happen: texts, and times that were read from JSON or are now
	}
	return string(value)
}

// RuleLabelsOf reads [LabelsAnnotation], but for what nodekeep cannot have written; nil is none.
func RuleLabelsOf(annotation string) (ruleLabels map[string]record.RuleLabel) {
	if annotation == "" || json.Unmarshal([]byte(annotation), &ruleLabels) != nil {
		return nil
	}
	maps.DeleteFunc(ruleLabels, func(key string, label record.RuleLabel) bool { return !label.ValidFor(key) })
	return ruleLabels
}

// Shown returns taints as kubectl taint writes them, sorted and separated by commas.
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
