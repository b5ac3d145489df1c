package controller

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/verify"
)

// pod is what memory holds of a Pod in the namespace of worker Pods.
type pod struct {
	verify.Pod
	namespace string
	node      string // of what looks like a worker Pod; empty: it does not
	on        string // of what looks like a control Pod: its Node; empty: it does not
}

// counts reports whether it looks like a worker Pod or a control Pod.
func (p *pod) counts() bool { return p != nil && (p.node != "" || p.on != "") }

// GetObjectMeta is for the informer.
func (p *pod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.namespace, Name: p.Name, UID: types.UID(p.UID), ResourceVersion: p.ResourceVersion}
}

// podOf is a Pod as memory holds it. Only fields that no kubelet can write decide whether it looks like a worker Pod. A kubelet can create mirror Pods,
// which have no ServiceAccount. It can also change annotations and the status of the Pods on its Node. What looks like a worker Pod counts only if this
// process created it ([verify.Observed.Worker]); else it is deleted.
func podOf(object *corev1.Pod) *pod {
	p := &pod{namespace: object.Namespace, Pod: verify.Pod{Name: object.Name, UID: string(object.UID), ResourceVersion: object.ResourceVersion}}
	owner := slices.IndexFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == "Node" && owner.APIVersion == "v1" })
	_, mirror := object.Annotations[corev1.MirrorPodAnnotationKey]
	// A Pod that is still there although its deletion was forced, as with a finalizer, must keep no Node waiting.
	forced := object.DeletionTimestamp != nil && object.DeletionGracePeriodSeconds != nil && *object.DeletionGracePeriodSeconds == 0
	if owner < 0 || mirror || forced || object.Spec.ServiceAccountName != verify.Account {
		return p
	}
	switch {
	case strings.HasPrefix(object.Name, verify.PodPrefix):
		p.node = object.Spec.NodeName
	case strings.HasPrefix(object.Name, verify.ControlPrefix):
		p.on = object.Spec.NodeName
	default:
		return p
	}
	p.NodeUID = string(object.OwnerReferences[owner].UID)
	p.Created, p.Phase, p.Reason = object.CreationTimestamp.Time, object.Status.Phase, beginning(object.Status.Reason, maxReason)
	if object.DeletionTimestamp != nil {
		p.Deleted = object.DeletionTimestamp.Time
	}
	for _, container := range object.Spec.Containers {
		for _, status := range object.Status.ContainerStatuses {
			if status.Name == container.Name && len(p.Containers) < len(object.Spec.Containers) {
				p.Containers = append(p.Containers, stateOf(status))
			}
		}
	}
	return p
}

func stateOf(status corev1.ContainerStatus) verify.ContainerState {
	state := verify.ContainerState{Name: status.Name}
	switch {
	case status.State.Terminated != nil:
		ended := status.State.Terminated
		state.Started, state.Ended, state.ExitCode, state.Reason = ended.StartedAt.Time, true, int(ended.ExitCode), beginning(ended.Reason, maxReason)
		state.Finished = ended.FinishedAt.Time
		if status.Name == verify.Worker {
			state.Message = beginning(ended.Message, verify.MaxReport+1) // one byte more shows that it is too long
		}
	case status.State.Running != nil:
		state.Started = status.State.Running.StartedAt.Time
	case status.State.Waiting != nil:
		state.Reason = beginning(status.State.Waiting.Reason, maxReason)
	}
	return state
}

// maxReason bounds the reasons of a Pod and of its containers, in bytes. Those of kubelets have at most some 30.
const maxReason = 256

// beginning is a copy of the beginning of a text of at most size bytes. A part of the text would hold all of it in memory.
func beginning(text string, size int) string { return strings.Clone(text[:min(len(text), size)]) }
