package verify

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// DaemonSet is what decides whether a DaemonSet has a Pod on a Node.
type DaemonSet struct {
	Name string         // NAMESPACE/NAME
	Pod  corev1.PodSpec // of its template
}

// AutoDaemonSets is the entry of wait.daemonSets that means every DaemonSet of the cluster.
const AutoDaemonSets = "auto"

// DaemonSetsOf returns the namespace where the DaemonSets of an entry of wait.daemonSets are. It is empty for all namespaces. The result every
// reports whether the entry means each DaemonSet there that runs on the Node. Otherwise it names one.
func DaemonSetsOf(entry string) (namespace string, all bool) {
	if entry == AutoDaemonSets {
		return metav1.NamespaceAll, true
	}
	namespace, name, _ := strings.Cut(entry, "/")
	return namespace, name == "*"
}

// RunsOn reports whether the DaemonSet controller places a Pod of the DaemonSet on a Node as the Node is now. One that does not tolerate a taint of the
// Node gets no Pod there before the taint is removed. So nothing may wait for its Pod.
//
// Source: NodeShouldRunDaemonPod in pkg/controller/daemon.
func (d DaemonSet) RunsOn(node *Node) bool {
	pod := d.Pod.DeepCopy()
	if pod.NodeName != "" && pod.NodeName != node.Name {
		return false
	}
	candidate := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}}
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *pod}).Match(candidate); err != nil || !fits {
		return false
	}
	_, untolerated := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), node.Taints, slices.Concat(pod.Tolerations, daemonTolerations(pod.HostNetwork)),
		func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }, true)
	return !untolerated
}

// daemonTolerations returns those that every Pod of a DaemonSet gets by itself.
//
// Source: AddOrUpdateDaemonPodTolerations in pkg/controller/daemon/util.
func daemonTolerations(hostNetwork bool) (tolerations []corev1.Toleration) {
	tolerates := func(effect corev1.TaintEffect, keys ...string) {
		for _, key := range keys {
			tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
		}
	}
	tolerates(corev1.TaintEffectNoExecute, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	tolerates(corev1.TaintEffectNoSchedule, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable)
	if hostNetwork {
		tolerates(corev1.TaintEffectNoSchedule, corev1.TaintNodeNetworkUnavailable)
	}
	return tolerations
}

// lacks returns a DaemonSet that an entry of wait.daemonSets means, and whose Pod on the Node is not Ready. It is empty if there is none.
func (o Observed) lacks(entry string) (daemonSet string) {
	if !o.DaemonSets[entry] {
		return entry
	}
	namespace, all := DaemonSetsOf(entry)
	if !all {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(o.DaemonSets)) {
		if (namespace == metav1.NamespaceAll || strings.HasPrefix(name, namespace+"/")) && !o.DaemonSets[name] {
			return name
		}
	}
	return ""
}
