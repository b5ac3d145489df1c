package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/api/v1alpha1"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Names of what nodekeep has in a cluster.
const (
	gateKey        = "nodekeep.dev/restoring"
	unverifiedKey  = "nodekeep.dev/unverified"
	emergencyName  = "nodekeep-emergency"
	policyName     = "default"
	componentLabel = "app.kubernetes.io/component"
	captureProcess = "capture"
	verifyProcess  = "verify"
	webhookProcess = "webhook"
	captureLease   = "nodekeep-capture"
	leaseTakenOver = 30 * time.Second // longer than any Lease of nodekeep lasts
)

// State is what the API server has at one moment.
type State struct {
	Time    time.Time
	Nodes   map[string]*corev1.Node
	Records map[string]record.Record
	// Pods of nodekeep that are Ready, by component.
	Pods map[string][]string
	// Policy is nil where there is none.
	Policy *v1alpha1.NodePolicy
	// Leader is who leads capture; empty: the Lease is empty, or was not renewed for long.
	Leader    string
	Emergency bool
}

// Read reads the state as an admin whose client config this is.
func Read(ctx context.Context, config *rest.Config, namespace string) (State, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return State{}, fmt.Errorf("make client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return State{}, fmt.Errorf("make client: %w", err)
	}
	s := State{Time: time.Now(), Nodes: map[string]*corev1.Node{}, Records: map[string]record.Record{}, Pods: map[string][]string{}}
	for _, read := range []func() error{
		func() error { return s.readNodes(ctx, client) },
		func() error { return s.readRecords(ctx, client, namespace) },
		func() error { return s.readPods(ctx, client, namespace) },
		func() error { return s.readLeader(ctx, client, namespace) },
		func() error { return s.readEmergency(ctx, client, namespace) },
		func() error { return s.readPolicy(ctx, objects) },
	} {
		if err := read(); err != nil {
			return State{}, fmt.Errorf("read the state of the cluster: %w", err)
		}
	}
	return s, nil
}

func (s *State) readNodes(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		s.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return nil
}

func (s *State) readRecords(ctx context.Context, client kubernetes.Interface, namespace string) error {
	maps, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, stored := range maps.Items {
		node, ok := strings.CutPrefix(stored.Name, "node.")
		if !ok {
			continue
		}
		if found, err := store.Decode([]byte(stored.Data[store.DataKey]), node); err == nil {
			s.Records[node] = found
		}
	}
	return nil
}

func (s *State) readPods(ctx context.Context, client kubernetes.Interface, namespace string) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodekeep"})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				s.Pods[pod.Labels[componentLabel]] = append(s.Pods[pod.Labels[componentLabel]], pod.Name)
			}
		}
	}
	return nil
}

func (s *State) readLeader(ctx context.Context, client kubernetes.Interface, namespace string) error {
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, captureLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if lease.Spec.HolderIdentity != nil && lease.Spec.RenewTime != nil && s.Time.Sub(lease.Spec.RenewTime.Time) < leaseTakenOver {
		s.Leader = *lease.Spec.HolderIdentity
	}
	return nil
}

func (s *State) readEmergency(ctx context.Context, client kubernetes.Interface, namespace string) error {
	_, err := client.RbacV1().RoleBindings(namespace).Get(ctx, emergencyName, metav1.GetOptions{})
	s.Emergency = err == nil
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (s *State) readPolicy(ctx context.Context, objects dynamic.Interface) error {
	found, err := objects.Resource(schema.GroupVersionResource{Group: "nodekeep.dev", Version: "v1alpha1", Resource: "nodepolicies"}).Get(ctx, policyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// What of the spec cannot be used may not fit its type either. Only the rest is read.
	live := &v1alpha1.NodePolicy{}
	status, _ := found.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": found.Object["metadata"], "status": status}, live); err != nil {
		return fmt.Errorf("decode NodePolicy: %w", err)
	}
	s.Policy = live
	return nil
}

// Invalid reports whether the leader of capture has refused the policy of this generation.
func (s *State) Invalid() bool {
	if s.Policy == nil {
		return false
	}
	accepted := apimeta.FindStatusCondition(s.Policy.Status.Conditions, v1alpha1.Accepted)
	return accepted != nil && accepted.ObservedGeneration == s.Policy.Generation && accepted.Status == metav1.ConditionFalse
}

// Behind returns the Ready Pods that follow another generation of the policy than it has.
func (s *State) Behind() (behind []string) {
	if s.Policy == nil || s.Invalid() {
		return nil
	}
	for _, pods := range s.Pods {
		for _, pod := range pods {
			if s.Policy.Status.ReadBy[pod] != s.Policy.Generation {
				behind = append(behind, pod)
			}
		}
	}
	return behind
}

// tainted returns the Nodes with a taint of this key.
func (s *State) tainted(key string) (names []string) {
	for name, node := range s.Nodes {
		if hasTaint(node, key) {
			names = append(names, name)
		}
	}
	return names
}

func hasTaint(node *corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

// shown returns an item of a Node: a label by its key, a taint as key:effect, an annotation as @key.
func shown(node *corev1.Node, item string) (value string, ok bool) {
	if node == nil {
		return "", false
	}
	if key, found := strings.CutPrefix(item, "@"); found {
		value, ok = node.Annotations[key]
		return value, ok
	}
	if key, effect, ok := strings.Cut(item, ":"); ok {
		for _, taint := range node.Spec.Taints {
			if taint.Key == key && string(taint.Effect) == effect {
				return taint.Value, true
			}
		}
		return "", false
	}
	value, ok = node.Labels[item]
	return value, ok
}
