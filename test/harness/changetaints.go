package harness

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Taint adds taints to a Node as an admin, in place of those of the same key and effect.
func (i *Installation) Taint(t testing.TB, name string, texts ...string) *corev1.Node {
	t.Helper()
	return i.ChangeTaints(t, name, func(taints []corev1.Taint) []corev1.Taint {
		for _, text := range texts {
			taints = append(WithoutTaint(taints, text), TaintOf(text))
		}
		return taints
	})
}

// Untaint removes a taint of a Node as an admin.
func (i *Installation) Untaint(t testing.TB, name, text string) *corev1.Node {
	t.Helper()
	return i.ChangeTaints(t, name, func(taints []corev1.Taint) []corev1.Taint { return WithoutTaint(taints, text) })
}

// ChangeTaints does what `kubectl taint` does, but never over another client's change.
func (i *Installation) ChangeTaints(t testing.TB, name string, change func([]corev1.Taint) []corev1.Taint) *corev1.Node {
	t.Helper()
	var changed *corev1.Node
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		node := i.Node(t, name)
		changed, err = i.PutTaints(t, node, change(node.Spec.Taints), "kubectl-taint")
		return err
	}))
	return changed
}

// PutTaints replaces the taints of the Node in exactly this state. It does so as an admin, with the field manager manager.
func (i *Installation) PutTaints(t testing.TB, node *corev1.Node, taints []corev1.Taint, manager string) (*corev1.Node, error) {
	t.Helper()
	return i.Admin.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, MustJSON(t, map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": taints},
	}), metav1.PatchOptions{FieldManager: manager})
}

// WithoutTaint returns the taints less that of the same key and effect.
func WithoutTaint(taints []corev1.Taint, text string) []corev1.Taint {
	unwanted := TaintOf(text)
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return taint.MatchTaint(&unwanted) })
}
