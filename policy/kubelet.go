package policy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// AllowedForKubelet reports whether a kubelet may carry the label key in the CREATE of its own Node. It may carry any annotation. With any
// other label in that CREATE, the API server rejects the registration. After every webhook the built-in plugins run again, and they judge
// our labels as the kubelet's.
//
// It mirrors the admission plugin NodeRestriction (plugin/pkg/admission/noderestriction in k8s.io/kubernetes). That plugin builds on
// IsKubeletLabel of k8s.io/kubelet/pkg/apis. A test compares the two.
func AllowedForKubelet(key string) bool {
	if record.IsAnnotation(key) {
		return true
	}
	domain := domainOf(key)
	if isOrUnder(domain, corev1.LabelNamespaceNodeRestriction) {
		return false
	}
	if !isOrUnder(domain, "kubernetes.io") && !isOrUnder(domain, "k8s.io") {
		return true
	}
	return kubeletMaySet(key) || isOrUnder(domain, corev1.LabelNamespaceSuffixKubelet) || isOrUnder(domain, corev1.LabelNamespaceSuffixNode)
}

func kubeletMaySet(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable:
		return true
	}
	return false
}

func isOrUnder(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
