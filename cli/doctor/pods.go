package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ComponentLabel shows which process a Pod runs.
const ComponentLabel = "app.kubernetes.io/component"

// podProblem returns what keeps the first pod of a process that is not ready, where that is known.
func podProblem(seen Installation, component string) string {
	for _, pod := range seen.Pods.Value {
		if pod.Labels[ComponentLabel] != component {
			continue
		}
		if reason := waitsFor(pod); reason != "" {
			return fmt.Sprintf(" (pod %s: %s)", pod.Name, reason)
		}
	}
	return ""
}

// waitsFor returns what a pod says of why it does not run or is not ready.
func waitsFor(pod corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		switch state := container.State; {
		case state.Waiting != nil && state.Waiting.Reason != "":
			return state.Waiting.Reason
		case state.Terminated != nil:
			return fmt.Sprintf("ended with code %d", state.Terminated.ExitCode)
		case state.Running != nil && !container.Ready:
			return "runs and is not ready"
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return strings.TrimSpace(condition.Reason + " " + condition.Message)
		}
	}
	return ""
}

// isOurs distinguishes the containers of the processes from those that others put into their pods.
func isOurs(container string) bool {
	return slices.Contains([]string{"webhook", "capture", "verify"}, container)
}

// judgeVersions judges whether all pods run one image.
func judgeVersions(seen Installation) answer {
	var a answer
	if addUnknown(&a, "", seen.Pods); !seen.Pods.Found {
		return a
	}
	named, running := sets.New[string](), sets.New[string]()
	for _, pod := range seen.Pods.Value {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, container := range pod.Spec.Containers {
			if isOurs(container.Name) {
				named.Insert(container.Image)
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if isOurs(container.Name) && container.ImageID != "" {
				running.Insert(container.ImageID)
			}
		}
	}
	images := sets.List(named)
	a.okText = "no pod runs"
	if len(images) > 0 {
		a.okText = "all pods run image " + images[0]
	}
	see := newRemedy("If no rollout is going on, see which ones are behind:",
		seen.kubectl("get pods -l %s -o custom-columns='POD:.metadata.name,IMAGE:.spec.containers[*].image,ID:.status.containerStatuses[*].imageID'", PodSelector))
	const object, consequence = "pods -l " + PodSelector, ": webhook and capture could decide differently"
	switch {
	case len(images) > 1:
		a.add(Warning, object, see, "pods run different images: %s"+consequence, strings.Join(images, ", "))
	case len(running) > 1:
		a.add(Warning, object, see, "pods run %d different images under one name, %s"+consequence, len(running), images[0])
	}
	return a
}
