package remove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
)

// ErrChanged is the error of a write that was made for an older state: read again, and decide again.
var ErrChanged = errors.New("the object has changed since it was read")

// Remove removes the object that was confirmed, if it is still the same. One that is removed already is no error.
func (r *Remover) Remove(ctx context.Context, target Target) error {
	if target.Removed {
		return nil
	}
	condition := &metav1.Preconditions{UID: new(types.UID(target.uid)), ResourceVersion: &target.version}
	var err error
	switch target.Kind {
	case verify.RemoveNodeClaim:
		err = r.objects.Resource(target.resource).Delete(ctx, target.Name, metav1.DeleteOptions{Preconditions: condition})
	case verify.RemoveMachine:
		err = r.remediate(ctx, target)
	case verify.RemoveNode:
		err = r.client.CoreV1().Nodes().Delete(ctx, target.Name, metav1.DeleteOptions{Preconditions: condition})
	default:
		return fmt.Errorf("remove node %q: kind %q removes nothing", target.Node, target.Kind)
	}
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case store.IsConflict(err):
		err = ErrChanged
	}
	return fmt.Errorf("remove node %q by %s: %w", target.Node, target, err)
}

// remediate marks a Machine. Its MachineHealthCheck has it remediated, and Cluster API drains and deletes it.
func (r *Remover) remediate(ctx context.Context, target Target) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": target.uid, "resourceVersion": target.version, "annotations": map[string]string{remediateAnnotation: ""},
	}})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: verify.Manager}
	_, err = r.objects.Resource(target.resource).Namespace(target.Namespace).Patch(ctx, target.Name, types.MergePatchType, patch, options)
	return err
}

// podsAtOnce bounds an answer of the API server: a kubelet can create any number of Pods on its Node.
const podsAtOnce = 200

// Blocking returns a Pod, as NAMESPACE/NAME, that keeps the Node from being removed; empty: there is none. Pods of DaemonSets, static Pods and Pods that have
// ended keep no Node.
func (r *Remover) Blocking(ctx context.Context, node string) (pod string, err error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), Limit: podsAtOnce}
	for {
		list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("remove node %q: list its Pods: %w", node, err)
		}
		for i := range list.Items {
			if blocks(&list.Items[i]) {
				return list.Items[i].Namespace + "/" + list.Items[i].Name, nil
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return "", nil
		}
	}
}

func blocks(pod *corev1.Pod) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}
