package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// loaders is how many clients at once make, change and delete what is not measured.
const loaders = 32

// Register sends a kubelet's CREATE.
func (b *Bed) Register(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := b.Kubelets.CoreV1().Nodes().Create(AsKubelet(ctx, name), b.Registration(name), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("register node %q: %w", name, err)
	}
	return node, nil
}

// AddNodes makes Nodes with the labels of operators.
func (b *Bed) AddNodes(ctx context.Context, names []string) measure.Load {
	return b.Load(ctx, names, loaders, func(ctx context.Context, name string) error {
		node := b.Registration(name)
		maps.Copy(node.Labels, Kept())
		_, err := b.Admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

// DeleteNodes deletes Nodes, as an admin.
func (b *Bed) DeleteNodes(ctx context.Context, names []string) measure.Load {
	return b.Load(ctx, names, loaders, b.DeleteNode)
}

// DeleteNode deletes a Node, if it is there, as an admin.
func (b *Bed) DeleteNode(ctx context.Context, name string) error {
	return ignoreNotFound(b.Admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))
}

// Label sets a label on a Node as an operator does.
func (b *Bed) Label(ctx context.Context, node, key, value string) error {
	return b.SetLabels(ctx, node, map[string]*string{key: &value})
}

// SetLabels sets labels of a Node as kubectl does, and removes those without a value.
func (b *Bed) SetLabels(ctx context.Context, node string, labels map[string]*string) error {
	change := map[string]any{"metadata": map[string]any{"labels": labels}}
	return patch(ctx, b.Admin, node, types.MergePatchType, change, "kubectl-label")
}

// Taint gives a Node a taint, and no other one.
func (b *Bed) Taint(ctx context.Context, node string, taint corev1.Taint) error {
	change := map[string]any{"spec": map[string]any{"taints": []corev1.Taint{taint}}}
	return patch(ctx, b.Admin, node, types.MergePatchType, change, "kubectl-taint")
}

// Heartbeat reports the status of a Node as its kubelet does when nothing has changed.
func (b *Bed) Heartbeat(ctx context.Context, node string) error {
	change := map[string]any{"status": map[string]any{"conditions": conditions(metav1.NewTime(time.Now()))}}
	return patch(AsKubelet(ctx, node), b.Kubelets, node, types.StrategicMergePatchType, change, "", "status")
}

// FindReady takes the taint away that the API server adds to each new Node, as kube-controller-manager does when a Node is Ready.
func (b *Bed) FindReady(ctx context.Context, name string) error {
	nodes := b.Admin.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{FieldManager: "kube-controller-manager"})
		return err
	})
}

// Report sets a further condition of a Node to True, as what runs on it does by the rights of its kubelet.
func (b *Bed) Report(ctx context.Context, node string, condition corev1.NodeConditionType) error {
	now := metav1.NewTime(time.Now())
	change := map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: condition, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "Benchmark",
	}}}}
	return patch(AsKubelet(ctx, node), b.Kubelets, node, types.StrategicMergePatchType, change, "", "status")
}

func patch(ctx context.Context, client *kubernetes.Clientset, node string, kind types.PatchType, change any, manager string, part ...string) error {
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode patch of node %q: %w", node, err)
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, node, kind, body, metav1.PatchOptions{FieldManager: manager}, part...); err != nil {
		return fmt.Errorf("patch node %q: %w", node, err)
	}
	return nil
}

// Names returns so many names of a kind.
func Names(kind string, count int) []string {
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("%s-%06d", kind, n)
	}
	return names
}
