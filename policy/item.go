package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// An item is one thing to remember of a Node: a label under its key, or a taint under its key and effect, as in
// "maintenance:NoExecute". Both are unique on a Node under that name, and no label key holds a colon. So labels and taints
// are remembered, missed and given back by the same rules.

// TaintItem is the name under which a taint is remembered.
func TaintItem(taint corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }

// IsTaint reports whether an item is a taint.
func IsTaint(item string) bool { return strings.Contains(item, ":") }

// TaintOf is the taint that an item with this value stands for, without timeAdded.
func TaintOf(item, value string) corev1.Taint {
	key, effect := cutEffect(item)
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// cutEffect separates the effect of a taint, behind the last colon, from what stands before it. There may be none.
func cutEffect(text string) (before string, effect corev1.TaintEffect) {
	colon := strings.LastIndex(text, ":")
	if colon < 0 {
		return text, ""
	}
	return text[:colon], corev1.TaintEffect(text[colon+1:])
}

// Items joins what a Node shows. A label whose key looks like a taint is left out: the API server stores none. Where there are
// neither such labels nor taints it is the labels map itself.
func Items(labels map[string]string, taints []corev1.Taint) map[string]string {
	if len(taints) == 0 && !holdsTaint(labels) {
		return labels
	}
	items := make(map[string]string, len(labels)+len(taints))
	maps.Copy(items, labels)
	maps.DeleteFunc(items, func(key, _ string) bool { return IsTaint(key) })
	for _, taint := range taints {
		items[TaintItem(taint)] = taint.Value
	}
	return items
}

func holdsTaint(labels map[string]string) bool {
	for key := range labels {
		if IsTaint(key) {
			return true
		}
	}
	return false
}

// Split separates items into labels and taints, these sorted. Both are the caller's own; labels is never nil.
func Split(items map[string]string) (labels map[string]string, taints []corev1.Taint) {
	labels = make(map[string]string, len(items))
	for item, value := range items {
		if IsTaint(item) {
			taints = append(taints, TaintOf(item, value))
		} else {
			labels[item] = value
		}
	}
	SortTaints(taints)
	return labels, taints
}

// SortTaints puts taints into the order in which nodekeep writes them: by key, effect and value.
func SortTaints(taints []corev1.Taint) {
	slices.SortFunc(taints, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
	})
}

// ValidItem reports whether the API server accepts the item; one that it does not would make it reject the whole Node
// (ValidateLabels of k8s.io/apimachinery; validateNodeTaints in pkg/apis/core/validation of k8s.io/kubernetes).
func ValidItem(item, value string) bool {
	if IsTaint(item) {
		taint := TaintOf(item, value)
		return validKey(taint.Key) && validValue(value) && slices.Contains(effects(), taint.Effect)
	}
	return validKey(item) && validValue(value)
}

func validKey(key string) bool     { return len(validation.IsQualifiedName(key)) == 0 }
func validValue(value string) bool { return len(validation.IsValidLabelValue(value)) == 0 }

// effects are what a taint may do.
func effects() []corev1.TaintEffect {
	return []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
}
