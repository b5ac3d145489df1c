package bed

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kept returns the ten labels that operators gave to each Node. A kubelet may set them too, so all of them are in the CREATE.
func Kept() map[string]string {
	kept := map[string]string{}
	for n := range 10 {
		kept[fmt.Sprintf("example.com/k%d", n)] = fmt.Sprintf("value-%d", n)
	}
	return kept
}

// AllImages is how many images a kubelet reports at most.
const AllImages = 50

// Registration returns what the kubelet of a Node sends that has run for a while. It has some 20 KiB of JSON, most of it images. The status is shared
// between the results.
func (b *Bed) Registration(name string) *corev1.Node {
	status := fullStatus
	status.Images = status.Images[:b.Images]
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
			},
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Status: status,
	}
}

var fullStatus = status()

func status() corev1.NodeStatus {
	room := corev1.ResourceList{
		"cpu": resource.MustParse("16"), "memory": resource.MustParse("65806664Ki"), "pods": resource.MustParse("110"),
		"ephemeral-storage": resource.MustParse("203056560Ki"), "hugepages-1Gi": resource.MustParse("0"),
	}
	s := corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: conditions(metav1.Time{}), NodeInfo: corev1.NodeSystemInfo{
		MachineID: "2d3f7a0e4b1c4c0f8a6e5d9b7c1a2f30", SystemUUID: "4c4c4544-0051-3510-8052-b4c04f4d3132", BootID: "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
		KernelVersion: "6.8.0-52-generic", OSImage: "Ubuntu 24.04.2 LTS", ContainerRuntimeVersion: "containerd://2.1.4",
		KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
	}}
	for n := range AllImages {
		image := fmt.Sprintf("registry.example.com/some-department/some-team-with-a-longer-name/some-component-%d-of-the-platform-that-they-run", n)
		s.Images = append(s.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s@sha256:%064x", image, n), fmt.Sprintf("%s:v1.%d.0-build.20260302.093000", image, n)},
			SizeBytes: 75_118_234,
		})
	}
	return s
}

// conditions returns those of a kubelet that is well, as it reports them at a moment.
func conditions(stamp metav1.Time) (all []corev1.NodeCondition) {
	for _, condition := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure"} {
		all = append(all, corev1.NodeCondition{
			Type: condition, Status: corev1.ConditionFalse, LastHeartbeatTime: stamp,
			Reason: "KubeletHasSufficient", Message: "kubelet has sufficient resources available",
		})
	}
	return append(all, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: stamp, Reason: "KubeletReady", Message: "kubelet is posting ready status",
	})
}
