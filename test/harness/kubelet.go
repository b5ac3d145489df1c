package harness

import (
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Registration returns what a kubelet sends when it starts. It has the kubelet's own labels, the identity of the machine, and a few images. It also has
// room for pods, without which the scheduler would bind nothing to the Node.
func Registration(name string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:   strings.TrimRight(name[:min(len(name), 63)], ".-"),
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "starting"}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: "machine-" + name, SystemUUID: "system-" + name, BootID: "boot",
				KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
			},
		},
	}
	for n := range 5 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("image-%d:latest", n)}, SizeBytes: 1 << 20})
	}
	return node
}

// Parallel calls do for every name, so many at a time.
func Parallel(names []string, atOnce int, fn func(name string)) {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, name := range names {
		all.Go(func() error { fn(name); return nil })
	}
	_ = all.Wait() // there are no errors
}

// Names returns so many names of a kind.
func Names(kind string, count int) []string {
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("%s-%03d", kind, n)
	}
	return names
}
