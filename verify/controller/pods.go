package controller

import (
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
	nodeName  string // of what looks like a control Pod or a trial Pod: its Node; empty: it does not
}

// counts reports whether it looks like a worker Pod, a control Pod or a trial Pod.
func (p *pod) counts() bool { return p != nil && (p.node != "" || p.nodeName != "") }

// GetObjectMeta is for the informer.
func (p *pod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.namespace, Name: p.Name, UID: types.UID(p.UID), ResourceVersion: p.ResourceVersion}
}

// podOf returns a Pod as memory holds it. What looks like a worker Pod counts only if this process created it ([verify.Observed.Worker]); else it is deleted.
func podOf(object *corev1.Pod) *pod {
	p := &pod{namespace: object.Namespace, Pod: verify.Pod{Name: object.Name, UID: string(object.UID), ResourceVersion: object.ResourceVersion}}
	if !verify.IsWorker(object) {
		return p
	}
	switch {
	case strings.HasPrefix(object.Name, verify.PodPrefix):
		p.node = object.Spec.NodeName
	case strings.HasPrefix(object.Name, verify.ControlPrefix), strings.HasPrefix(object.Name, verify.TrialPrefix):
		p.nodeName = object.Spec.NodeName
	default:
		return p
	}
	p.Pod = verify.PodOf(object)
	return p
}
