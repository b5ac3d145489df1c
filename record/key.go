package record

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A key names one thing that a Node can show. A label has its own key, a taint its key and effect ("maintenance:NoExecute"), an annotation
// "@" and its key. Each is unique on a Node, and no label key holds a colon or "@".

// TaintKey returns the key of a taint.
func TaintKey(taint corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }

// IsTaint reports whether a key is that of a taint.
func IsTaint(key string) bool { return !IsAnnotation(key) && strings.Contains(key, ":") }

// Taint returns the taint of that key and value, without timeAdded.
func Taint(key, value string) corev1.Taint {
	name, effect, _ := cutLast(key)
	return corev1.Taint{Key: name, Value: value, Effect: corev1.TaintEffect(effect)}
}

func cutLast(key string) (head, tail string, found bool) {
	if colon := strings.LastIndex(key, ":"); colon >= 0 {
		return key[:colon], key[colon+1:], true
	}
	return key, "", false
}

// Join returns what labels and taints show, by key. Of two taints with one key, the first counts. A label or taint whose key has the form of
// another kind is left out. The map belongs to the caller.
func Join(labels map[string]string, taints []corev1.Taint) map[string]string {
	items := make(map[string]string, len(labels)+len(taints))
	for key, value := range labels {
		if IsLabel(key) {
			items[key] = value
		}
	}
	for _, taint := range taints {
		key := TaintKey(taint)
		if _, taken := items[key]; !taken && IsTaint(key) {
			items[key] = taint.Value
		}
	}
	return items
}

// Split returns the reverse of Join; annotations are left out, see [SplitAnnotations]. The taints are sorted; labels is nil where there are none.
func Split(items map[string]string) (labels map[string]string, taints []corev1.Taint) {
	for key, value := range items {
		if IsTaint(key) {
			taints = append(taints, Taint(key, value))
		}
		if !IsLabel(key) {
			continue
		}
		if labels == nil {
			labels = make(map[string]string, len(items))
		}
		labels[key] = value
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

// Valid reports whether the API server accepts an item of that key and value. It would reject a whole Node because of one invalid item. The
// sources are ValidateLabels of k8s.io/apimachinery, and validateNodeTaints in pkg/apis/core/validation of k8s.io/kubernetes.
func Valid(key, value string) bool {
	if annotation, ok := Annotation(key); ok {
		return validAnnotation(annotation, value)
	}
	name, effect, taint := cutLast(key)
	if taint && !ValidEffect(corev1.TaintEffect(effect)) {
		return false
	}
	return len(validation.IsQualifiedName(name)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// ValidEffect reports whether a taint can have the effect.
func ValidEffect(effect corev1.TaintEffect) bool {
	return effect == corev1.TaintEffectNoSchedule || effect == corev1.TaintEffectPreferNoSchedule || effect == corev1.TaintEffectNoExecute
}
