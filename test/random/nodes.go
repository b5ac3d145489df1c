package random

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	parallel = 16                     // Nodes that have something done to them at once
	quiet    = 300 * time.Millisecond // for which nothing must have changed
	gateKey  = "nodekeep.dev/restoring"
)

// ForEach calls do for every item, some at a time, and returns all errors.
func ForEach[T any](items []T, fn func(item T) error) error {
	var all errgroup.Group
	all.SetLimit(parallel)
	failures := make([]error, len(items))
	for n, item := range items {
		all.Go(func() error { failures[n] = fn(item); return nil })
	}
	_ = all.Wait() // the errors are in failures
	return errors.Join(failures...)
}

// Relabel does what `kubectl label` does; nil removes a label. With a version, it changes only the Node of that version.
func Relabel(ctx context.Context, client kubernetes.Interface, name string, labels map[string]any, version string) (*corev1.Node, error) {
	metadata := map[string]any{"labels": labels}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubectl-label"})
}

// Labels returns those of a Node that a model is about.
func Labels(node *corev1.Node, keys []string) map[string]string {
	labels := map[string]string{}
	for _, key := range keys {
		if value, ok := node.Labels[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

// Gated reports whether a Node carries the gate.
func Gated(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == gateKey })
}

// Nodes returns all Nodes, by name, and their versions.
func Nodes(ctx context.Context, client kubernetes.Interface) (nodes map[string]*corev1.Node, versions map[string]string, err error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes, versions = map[string]*corev1.Node{}, map[string]string{}
	for n := range list.Items {
		node := &list.Items[n]
		nodes[node.Name], versions["node "+node.Name] = node, node.ResourceVersion
	}
	return nodes, versions, nil
}

// Settle looks again and again, until nothing is wrong and nothing was written since the look before. If that takes too long, it returns what is
// wrong, or what is still written. What look says is wrong, and the versions of what it saw, have a key for each object.
func Settle(timeout time.Duration, look func() (wrong, versions map[string]string, err error)) (map[string]string, error) {
	var prev map[string]string
	for first, deadline := true, time.Now().Add(timeout); ; first = false {
		wrong, versions, err := look()
		switch {
		case err != nil:
			return nil, err
		case len(wrong) == 0 && !first && maps.Equal(prev, versions):
			return nil, nil
		case time.Now().After(deadline) && len(wrong) == 0:
			return written(prev, versions), nil
		case time.Now().After(deadline):
			return wrong, nil
		}
		prev = versions
		time.Sleep(quiet)
	}
}

// written says which objects changed from one look to the next.
func written(prev, versions map[string]string) map[string]string {
	wrong := map[string]string{}
	for _, looks := range []map[string]string{prev, versions} {
		for object := range looks {
			if prev[object] != versions[object] {
				wrong[object] = fmt.Sprintf("version %q, then %q: it is written although all is as the model says", prev[object], versions[object])
			}
		}
	}
	return wrong
}
