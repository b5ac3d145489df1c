package harness

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// TaintOf reads a taint as `kubectl taint` takes it: key=value:effect or key:effect.
func TaintOf(text string) corev1.Taint {
	name, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(name, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
}

// TaintsOf returns the taints of a Node as kubectl writes them, sorted, without those that Kubernetes adds by itself.
func TaintsOf(node *corev1.Node) []string {
	texts := []string{}
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			texts = append(texts, taint.ToString())
		}
	}
	slices.Sort(texts)
	return texts
}

// Carries reports whether a Node has this taint, exactly and once.
func Carries(node *corev1.Node, text string) bool {
	wanted, found := TaintOf(text), 0
	for _, taint := range node.Spec.Taints {
		if taint.ToString() == wanted.ToString() {
			found++
		}
	}
	return found == 1
}
