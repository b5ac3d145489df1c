package quantity

import (
	"fmt"
	"math/bits"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Sizes of huge pages that most machines have, as suggestions.
const (
	smallPages = corev1.ResourceHugePagesPrefix + "2Mi"
	largePages = corev1.ResourceHugePagesPrefix + "1Gi"
)

// core returns the resources without a domain that each kubelet reports of its Node (kubelet, nodestatus/setters.go).
func core() []string {
	return []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage), string(corev1.ResourcePods)}
}

// IsExtended reports whether a device plugin reports a resource, or another component does. Its name has a domain.
func IsExtended(name string) bool { return strings.Contains(name, "/") }

// IsOfNode reports whether a resource is of a Node alone: how many Pods or volumes it takes. No container asks for it.
func IsOfNode(name string) bool {
	return name == string(corev1.ResourcePods) || strings.HasPrefix(name, corev1.ResourceAttachableVolumesPrefix)
}

// WrongName returns why no Node can have a resource of this name; empty: one can. The names without a domain are those that a kubelet reports.
// The quota of a namespace counts more (pkg/apis/core/helper of k8s.io/kubernetes), which is nothing of a Node.
func WrongName(name string) (reason string) {
	if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
		return wrong[0]
	}
	if IsExtended(name) {
		return ""
	}
	if size, pages := strings.CutPrefix(name, corev1.ResourceHugePagesPrefix); pages {
		return wrongPages(name, size)
	}
	if volumes, ok := strings.CutPrefix(name, corev1.ResourceAttachableVolumesPrefix); ok && volumes != "" {
		return ""
	}
	for _, known := range core() {
		if name == known {
			return ""
		}
	}
	return missing(Nearest(name, append(core(), smallPages, largePages)))
}

// wrongPages returns why no Node has huge pages of a size. A kubelet writes the size in one form only (HugePageResourceName in
// pkg/apis/core/v1/helper).
func wrongPages(name, size string) (reason string) {
	amount, err := Parse(size)
	bytes := amount.Value()
	if err != nil || bits.OnesCount64(uint64(max(0, bytes))) != 1 { // a page has a power of two
		return missing(Nearest(name, []string{smallPages, largePages}))
	}
	if written := corev1.ResourceHugePagesPrefix + resource.NewQuantity(bytes, resource.BinarySI).String(); name != written {
		return missing(written)
	}
	return ""
}

// missing says that no Node has a resource, and which one may be meant.
func missing(meant string) string {
	if meant != "" {
		meant = fmt.Sprintf(" (did you mean %s?)", meant)
	}
	return "is no resource that Kubernetes has" + meant + ": without a domain these are cpu, memory, ephemeral-storage, pods, hugepages-SIZE and " +
		"attachable-volumes-NAME; one of a device plugin has a domain, such as nvidia.com/gpu"
}
