package controller

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// The API server takes objects of some 1.5 MiB, and a kubelet writes the status of the Pods on its Node.
func TestWhatAKubeletWritesIntoTheStatusOfAWorkerPodTakesLittleMemory(t *testing.T) {
	const pods, size = 50, 1 << 20
	heap := func() int {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	states := map[string]func(text string) corev1.ContainerState{
		"the message of the worker": func(text string) corev1.ContainerState {
			return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: text}}
		},
		"why the worker ended": func(text string) corev1.ContainerState {
			return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: text}}
		},
		"why the worker waits": func(text string) corev1.ContainerState {
			return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: text}}
		},
		"the reason of the Pod": nil,
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			index := heap()
			var kept []*pod
			for range pods {
				object := workerPod(Options{Namespace: namespace, Image: "x"}, "check-1", &verify.Node{Name: "n1", UID: "u1"}, verify.Action{}, verify.Task{})
				text := strings.Repeat("x", size)
				if state == nil {
					object.Status.Reason = text
				} else {
					object.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: verify.Worker, State: state(text)}}
				}
				kept = append(kept, podOf(object))
			}
			assert.Less(t, heap()-index, pods*size/10)
			assert.Equal(t, "n1", kept[0].node)
			runtime.KeepAlive(kept)
		})
	}
}
