package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"nodekeep.dev/nodekeep/verify"
)

// daemonLookups are the DaemonSets of namespaces as they were some moments ago.
type daemonLookups struct {
	mu          sync.Mutex
	byNamespace map[string]*daemonLookup // empty: all namespaces
}

type daemonLookup struct {
	mu   sync.Mutex // held while they are looked up, so that a burst looks up once
	time time.Time
	all  []verify.DaemonSet
}

// daemonSets reports for each entry of wait.daemonSets whether the Pod on a Node is Ready; see [verify.Observed].
func (l *lookups) daemonSets(ctx context.Context, entries []string, node *verify.Node) (map[string]bool, error) {
	ready := map[string]bool{}
	pods := map[string]map[string]bool{} // by namespace: the DaemonSets with a Ready Pod on the Node
	for _, entry := range entries {
		namespace, wildcard := verify.DaemonSetsOf(entry)
		if _, ok := pods[namespace]; !ok {
			found, err := l.readyDaemons(ctx, namespace, node.Name)
			if err != nil {
				return nil, fmt.Errorf("look up Pods for %s of wait.daemonSets: %w", entry, err)
			}
			pods[namespace] = found
		}
		if !wildcard {
			if pods[namespace][entry] {
				ready[entry] = true
			}
			continue
		}
		all, err := l.daemonSetsIn(ctx, namespace)
		if err != nil {
			return nil, err
		}
		for _, daemonSet := range all {
			if daemonSet.RunsOn(node) {
				ready[entry] = true // that none runs there proves nothing: they may be deleted, or not created yet
				ready[daemonSet.Name] = pods[namespace][daemonSet.Name]
			}
		}
	}
	return ready, nil
}

// readyDaemons returns the DaemonSets of a namespace, or of all, as NAMESPACE/NAME, that have a Ready Pod on a Node. The API server has an index of Pods by
// their Node. So the answer costs it the Pods of one Node, even for all namespaces.
func (l *lookups) readyDaemons(ctx context.Context, namespace, place string) (map[string]bool, error) {
	options := metav1.ListOptions{ResourceVersion: fromCache}
	options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", place).String()
	list, err := l.client.CoreV1().Pods(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	ready := map[string]bool{}
	for _, pod := range list.Items {
		owner := metav1.GetControllerOf(&pod)
		if pod.Spec.NodeName == place && owner != nil && owner.Kind == "DaemonSet" && isReady(&pod) {
			ready[pod.Namespace+"/"+owner.Name] = true
		}
	}
	return ready, nil
}

// daemonSetsIn returns the DaemonSets of a namespace, or of all. Nodes that wait at one time share a lookup.
func (l *lookups) daemonSetsIn(ctx context.Context, namespace string) ([]verify.DaemonSet, error) {
	entry := l.daemons.lookup(namespace)
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if l.now().Sub(entry.time) < lookupLasts {
		return entry.all, nil
	}
	list, err := l.client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{ResourceVersion: fromCache})
	if err != nil {
		place := "namespace " + namespace
		if namespace == metav1.NamespaceAll {
			place = "all namespaces"
		}
		return nil, fmt.Errorf("look up DaemonSets of %s: %w", place, err)
	}
	entry.time, entry.all = l.now(), nil
	for i := range list.Items {
		if daemonSet := &list.Items[i]; daemonSet.DeletionTimestamp == nil {
			entry.all = append(entry.all, verify.DaemonSet{Name: daemonSet.Namespace + "/" + daemonSet.Name, Pod: daemonSet.Spec.Template.Spec})
		}
	}
	return entry.all, nil
}

func (l *daemonLookups) lookup(namespace string) *daemonLookup {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byNamespace == nil {
		l.byNamespace = map[string]*daemonLookup{}
	}
	if l.byNamespace[namespace] == nil {
		l.byNamespace[namespace] = &daemonLookup{}
	}
	return l.byNamespace[namespace]
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}
