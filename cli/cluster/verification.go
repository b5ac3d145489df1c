package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/verify"
)

// GetLastFailedReport returns the last attempt that did not pass; nil where none is kept.
func (c *Cluster) GetLastFailedReport(ctx context.Context, namespace, node string) (*verify.SavedReport, error) {
	name := verify.ReportName(node)
	kept, err := c.GetConfigMap(ctx, namespace, name)
	if err != nil || kept == nil {
		return nil, err
	}
	report, err := verify.ParseSavedReport(kept.Data[verify.ReportKey])
	if err == nil && report.Node != node {
		err = fmt.Errorf("it is about node %q", report.Node)
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s in namespace %s: %w", name, namespace, err)
	}
	return &report, nil
}

// GetTrials returns the last trial of each of these profiles, by the profile's name. A profile of which none is kept has no entry.
func (c *Cluster) GetTrials(ctx context.Context, namespace string, profiles []string) (map[string]verify.SavedReport, error) {
	trials := map[string]verify.SavedReport{}
	for _, profile := range profiles {
		kept, err := c.GetConfigMap(ctx, namespace, verify.TrialName(profile))
		if err != nil {
			return nil, err
		}
		if kept == nil {
			continue
		}
		trial, err := verify.ParseSavedReport(kept.Data[verify.ReportKey])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s in namespace %s: %w", kept.Name, namespace, err)
		}
		trials[profile] = trial
	}
	return trials, nil
}

// GetLedger returns what was removed lately.
func (c *Cluster) GetLedger(ctx context.Context, namespace string) (verify.Ledger, error) {
	kept, err := c.GetConfigMap(ctx, namespace, verify.LedgerMap)
	if err != nil || kept == nil {
		return verify.Ledger{}, err
	}
	text, ok := kept.Data[verify.LedgerKey]
	ledger, err := verify.ParseLedger(text)
	if !ok {
		err = fmt.Errorf("it has no key %s", verify.LedgerKey)
	}
	if err != nil {
		return verify.Ledger{}, fmt.Errorf("ConfigMap %[1]s in namespace %[2]s: %[3]w; no Node is removed until this is corrected. To correct it, delete the ConfigMap "+
			"(kubectl -n %[2]s delete configmap %[1]s): nodekeep then forgets which Nodes it removed within the last 24 hours", verify.LedgerMap, namespace, err)
	}
	return ledger, nil
}

// GetRemovals returns the removals of Nodes of a name.
func (c *Cluster) GetRemovals(ctx context.Context, namespace, node string) ([]verify.Removal, error) {
	ledger, err := c.GetLedger(ctx, namespace)
	return slices.DeleteFunc(ledger.Removals, func(removal verify.Removal) bool { return removal.Node != node }), err
}

// ListWorkers returns the worker Pods by the name of their Node.
func (c *Cluster) ListWorkers(ctx context.Context, namespace string, options metav1.ListOptions) (map[string][]*corev1.Pod, error) {
	workers := map[string][]*corev1.Pod{}
	right := doctor.Right{Verb: "list", Resource: "pods", Namespace: namespace}
	for pod, err := range List[*corev1.Pod](ctx, c, right, c.Client.CoreV1().Pods(namespace), options) {
		if err != nil {
			return nil, err
		}
		if verify.IsWorker(pod) && strings.HasPrefix(pod.Name, verify.PodPrefix) {
			workers[pod.Spec.NodeName] = append(workers[pod.Spec.NodeName], pod)
		}
	}
	return workers, nil
}

// ListWorkersOfNode returns the worker Pods on one Node; nil if they are not known.
func (c *Cluster) ListWorkersOfNode(ctx context.Context, namespace, node string) ([]*corev1.Pod, error) {
	workers, err := c.ListWorkers(ctx, namespace, metav1.ListOptions{FieldSelector: fields.Set{"spec.nodeName": node}.String()})
	if err != nil {
		return nil, err
	}
	return append([]*corev1.Pod{}, workers[node]...), nil
}

// GetDaemonSetReadiness returns the DaemonSets that a profile waits for on a Node. The value shows whether their Pod on the Node is Ready.
func (c *Cluster) GetDaemonSetReadiness(ctx context.Context, node *corev1.Node, profile verify.CompiledProfile) (map[string]bool, error) {
	ready := map[string]bool{}
	for _, entry := range profile.Wait.DaemonSets {
		namespace, all := verify.DaemonSetsOf(entry)
		options := metav1.ListOptions{FieldSelector: fields.Set{"spec.nodeName": node.Name}.String()}
		pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, options)
		if err != nil {
			return nil, c.ExplainError(doctor.Right{Verb: "list", Resource: "pods", Namespace: namespace}, err)
		}
		if all {
			found, err := c.expectDaemonSets(ctx, namespace, node, ready)
			if err != nil {
				return nil, err
			}
			ready[entry] = found
		}
		for _, pod := range pods.Items {
			owner := metav1.GetControllerOf(&pod)
			if owner == nil || owner.Kind != "DaemonSet" || !slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
				return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
			}) {
				continue
			}
			if name := pod.Namespace + "/" + owner.Name; all || name == entry {
				ready[name] = true
			}
		}
	}
	return ready, nil
}

// expectDaemonSets adds the DaemonSets of a namespace, or of all, that have a Pod on a Node, as not ready. It reports whether there is one.
func (c *Cluster) expectDaemonSets(ctx context.Context, namespace string, node *corev1.Node, ready map[string]bool) (found bool, err error) {
	all, err := c.Client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, c.ExplainError(doctor.Right{Verb: "list", Group: appsv1.GroupName, Resource: "daemonsets", Namespace: namespace}, err)
	}
	verifyNode := verify.NodeOf(node)
	for _, set := range all.Items {
		daemonSet := verify.DaemonSet{Name: set.Namespace + "/" + set.Name, Pod: set.Spec.Template.Spec}
		if set.DeletionTimestamp == nil && daemonSet.RunsOn(&verifyNode) {
			found = true
			if _, known := ready[daemonSet.Name]; !known {
				ready[daemonSet.Name] = false
			}
		}
	}
	return found, nil
}
