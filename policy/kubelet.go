package policy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis"

	"nodekeep.dev/nodekeep/record"
)

// AllowedForKubelet reports whether a kubelet may carry the label key in the CREATE of its own Node. It may carry any annotation. With any
// other label in that CREATE, the API server rejects the registration. After every webhook the built-in plugins run again, and they judge
// our labels as the kubelet's.
//
// It is the rule of the admission plugin NodeRestriction, over the same list of labels. See getForbiddenLabels in
// plugin/pkg/admission/noderestriction of k8s.io/kubernetes.
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
	return apis.IsKubeletLabel(key)
}

func isOrUnder(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
