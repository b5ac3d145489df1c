package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// Cordon is the item that stands for spec.unschedulable. The node lifecycle controller adds this taint because of the field, and removes it
// with the field. So the field is recorded and restored.
const Cordon = corev1.TaintNodeUnschedulable + ":" + string(corev1.TaintEffectNoSchedule)

// OnCordon says whether a cordon is recorded.
// +kubebuilder:validation:Enum=ignore;keep
type OnCordon string

// The values of cordon.
const (
	IgnoreCordon OnCordon = "ignore" // a Node registers schedulable (default)
	KeepCordon   OnCordon = "keep"   // a cordoned Node registers cordoned
)

// ItemsOf returns the items that a Node shows: its labels, its taints and its cordon. The map is the caller's own.
func ItemsOf(labels map[string]string, taints []corev1.Taint, unschedulable bool) map[string]string {
	items := record.Join(labels, taints)
	delete(items, Cordon)
	if unschedulable {
		items[Cordon] = ""
	}
	return items
}

// SplitItems returns the reverse of [ItemsOf].
func SplitItems(items map[string]string) (labels map[string]string, taints []corev1.Taint, unschedulable bool) {
	labels, taints = record.Split(items)
	_, unschedulable = items[Cordon]
	taints = slices.DeleteFunc(taints, func(taint corev1.Taint) bool { return record.TaintKey(taint) == Cordon })
	return labels, taints, unschedulable
}
