package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// componentLabel shows which process a pod runs.
const componentLabel = "app.kubernetes.io/component"

// trouble is what keeps the first pod of a process that is not ready, where that is known.
func trouble(seen Seen, component string) string {
	for _, pod := range seen.Pods.Value {
		if pod.Labels[componentLabel] != component {
			continue
		}
		if reason := waitsFor(pod); reason != "" {
			return fmt.Sprintf(" (pod %s: %s)", pod.Name, reason)
		}
	}
	return ""
}

// waitsFor is what a pod says of why it does not run or is not ready.
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
func judgeVersions(seen Seen) answer {
	var a answer
	if lacks(&a, "", seen.Pods); !seen.Pods.Found {
		return a
	}
	named, running := map[string]bool{}, map[string]bool{}
	for _, pod := range seen.Pods.Value {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, container := range pod.Spec.Containers {
			if isOurs(container.Name) {
				named[container.Image] = true
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if isOurs(container.Name) && container.ImageID != "" {
				running[container.ImageID] = true
			}
		}
	}
	images := slices.Sorted(maps.Keys(named))
	a.ok = cmp.Or(strings.Join(images, ", "), "no pod runs")
	var what string
	switch {
	case len(images) > 1:
		what = "pods run different images: " + strings.Join(images, ", ")
	case len(running) > 1:
		what = fmt.Sprintf("pods run %d different images under one name, %s", len(running), images[0])
	default:
		return a
	}
	a.add(Finding{
		Severity: Warning, Object: "pods -l " + PodSelector, What: what + ": webhook and capture could decide differently",
		Remedy: Remedy{Text: "If no rollout is going on, see which ones are behind:", Commands: []string{
			fmt.Sprintf("kubectl -n %s get pods -l %s -o custom-columns='POD:.metadata.name,IMAGE:.spec.containers[*].image,ID:.status.containerStatuses[*].imageID'", seen.Namespace, PodSelector),
		}},
	})
	return a
}
