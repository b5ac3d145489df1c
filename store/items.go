package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A record holds labels and taints as items of one map, a label under its key and a taint as "key:effect", see
// policy.TaintItem. In its JSON they are a map of labels and a list of taints, as in a Node.

// split separates items into what the JSON has of them. The taints are sorted.
func split(items map[string]string) (labels map[string]string, taints []corev1.Taint) {
	for item, value := range items {
		colon := strings.LastIndex(item, ":")
		if colon < 0 {
			if labels == nil {
				labels = make(map[string]string, len(items))
			}
			labels[item] = value
			continue
		}
		taints = append(taints, corev1.Taint{Key: item[:colon], Value: value, Effect: corev1.TaintEffect(item[colon+1:])})
	}
	return labels, sorted(taints)
}

// join is the reverse of split. Of several taints with one key and effect the first counts; a label whose key holds a
// colon is none.
func join(labels map[string]string, taints []corev1.Taint) map[string]string {
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.Contains(key, ":") })
	if len(taints) == 0 {
		return labels
	}
	items := make(map[string]string, len(labels)+len(taints))
	maps.Copy(items, labels)
	for _, taint := range taints {
		item := itemOf(taint)
		if _, taken := items[item]; !taken {
			items[item] = taint.Value
		}
	}
	return items
}

// itemOf is what a taint is called.
func itemOf(taint corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }

// sorted puts taints into a stable order and leaves out when they were added. The list is changed in place.
func sorted(taints []corev1.Taint) []corev1.Taint {
	for i := range taints {
		taints[i].TimeAdded = nil
	}
	slices.SortFunc(taints, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
	})
	return taints
}
