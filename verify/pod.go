package verify

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodOf returns what the plan reads of a Pod. Texts are copies of a bounded length: a part of a text would hold all of it in memory.
func PodOf(object *corev1.Pod) Pod {
	pod := Pod{
		Name: object.Name, UID: string(object.UID), ResourceVersion: object.ResourceVersion, Created: object.CreationTimestamp.Time,
		Phase: object.Status.Phase, Reason: beginning(object.Status.Reason, maxReason),
	}
	if owner := slices.IndexFunc(object.OwnerReferences, IsNode); owner >= 0 {
		pod.NodeUID = string(object.OwnerReferences[owner].UID)
	}
	if object.DeletionTimestamp != nil {
		pod.Deleted = object.DeletionTimestamp.Time
	}
	for _, container := range object.Spec.Containers {
		for _, status := range object.Status.ContainerStatuses {
			if status.Name == container.Name && len(pod.Containers) < len(object.Spec.Containers) {
				pod.Containers = append(pod.Containers, stateOf(container, status))
			}
		}
	}
	return pod
}

// Outdated reports whether a worker Pod of a Node is of an attempt that counts no more. The API server writes times of Pods in whole seconds. Between two
// attempts of a round is a pause of a second or more.
func (p Progress) Outdated(worker Pod, node *Node, now time.Time) bool {
	if worker.NodeUID != node.UID || !worker.Deleted.IsZero() || worker.Created.Before(p.Asked.Truncate(time.Second)) {
		return true
	}
	switch {
	case p.Last == nil || p.Last.Time.After(now):
		return false
	case p.Tried():
		return !worker.Created.After(p.Last.Time)
	}
	return worker.Created.Before(p.Last.Time.Truncate(time.Second))
}

// IsWorker reports whether a Pod in the namespace of worker Pods looks like one that a controller created. Only fields that no kubelet can write decide.
// A kubelet can create mirror Pods, which have no ServiceAccount. It can also change annotations and the status of the Pods on its Node. A Pod that is
// still there although its deletion was forced, as with a finalizer, must keep no Node waiting.
func IsWorker(object *corev1.Pod) bool {
	_, mirror := object.Annotations[corev1.MirrorPodAnnotationKey]
	forced := object.DeletionTimestamp != nil && object.DeletionGracePeriodSeconds != nil && *object.DeletionGracePeriodSeconds == 0
	return !mirror && !forced && object.Spec.ServiceAccountName == Account && slices.ContainsFunc(object.OwnerReferences, IsNode)
}

// IsNode reports whether an owner is a Node.
func IsNode(owner metav1.OwnerReference) bool {
	return owner.Kind == "Node" && owner.APIVersion == "v1"
}

func stateOf(container corev1.Container, status corev1.ContainerStatus) ContainerState {
	state := ContainerState{Name: status.Name, Image: beginning(container.Image, maxMessage)}
	switch {
	case status.State.Terminated != nil:
		ended := status.State.Terminated
		state.Started, state.Ended, state.ExitCode, state.Reason = ended.StartedAt.Time, true, int(ended.ExitCode), beginning(ended.Reason, maxReason)
		state.Finished = ended.FinishedAt.Time
		if status.Name == Worker {
			state.Message = beginning(ended.Message, MaxReport+1) // one byte more shows that it is too long
		}
	case status.State.Running != nil:
		state.Started = status.State.Running.StartedAt.Time
	case status.State.Waiting != nil:
		state.Reason, state.Message = beginning(status.State.Waiting.Reason, maxReason), beginning(status.State.Waiting.Message, maxMessage)
	}
	return state
}

// maxReason bounds the reasons of a Pod and of its containers, in bytes. Those of kubelets have at most some 30.
const maxReason = 256

func beginning(text string, size int) string { return strings.Clone(text[:min(len(text), size)]) }
