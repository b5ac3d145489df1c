package scheduling

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/install"
	"nodekeep.dev/nodekeep/test/kubelet"
)

// What every Node here carries: a label that a kubelet could bring itself, and one that NodeRestriction denies to it.
const (
	isolated = "isolated" // yes
	worker   = "node-role.kubernetes.io/worker"
)

// settles is how long anything may take by itself in a test on a busy machine.
const settles = time.Minute

// carried is what an admin puts on every Node and nodekeep must bring back.
func carried() map[string]string { return map[string]string{isolated: "yes", worker: ""} }

func names(prefix string, count int) []string {
	all := make([]string, count)
	for n := range all {
		all[n] = fmt.Sprintf("%s-%03d", prefix, n)
	}
	return all
}

// eachNode calls do for every name, some at a time.
func eachNode(names []string, do func(name string)) { kubelet.Each(names, 4, do) }

// register sends what a kubelet sends when it starts and returns what the API server stored.
func register(ctx context.Context, name string, options metav1.CreateOptions) (*corev1.Node, error) {
	client, err := kubernetes.NewForConfig(nodekeep.Cluster.Kubelet(name))
	if err != nil {
		return nil, err
	}
	return client.CoreV1().Nodes().Create(ctx, kubelet.Registration(name), options)
}

// rememberThenDelete registers Nodes, labels them as an admin would, waits until all records hold the labels and deletes
// the Nodes. What is registered again under these names goes with the test.
func rememberThenDelete(t *testing.T, names []string) {
	t.Helper()
	t.Cleanup(func() { deleteNodes(t, names) })
	labels, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": carried()}})
	require.NoError(t, err)
	eachNode(names, func(name string) {
		if _, err := register(t.Context(), name, metav1.CreateOptions{}); !assert.NoError(t, err) {
			return
		}
		_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, labels, metav1.PatchOptions{FieldManager: "kubectl-label"})
		assert.NoError(t, err)
	})
	require.Eventually(t, func() bool {
		list, err := nodekeep.Admin.CoreV1().ConfigMaps(install.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
		return err == nil && each(names, list.Items, func(cm corev1.ConfigMap) (string, bool) {
			var record store.Record
			err := record.UnmarshalJSON([]byte(cm.Data[store.DataKey]))
			return record.Node, err == nil && maps.Equal(record.Items, carried())
		})
	}, settles, 100*time.Millisecond, "every record must come to hold %v", carried())
	deleteNodes(t, names)
}

// deleteNodes leaves the scheduler with no Node at all. It works when the test's own context has ended.
func deleteNodes(t *testing.T, names []string) {
	t.Helper()
	ctx, nodes := context.WithoutCancel(t.Context()), nodekeep.Admin.CoreV1().Nodes()
	eachNode(names, func(name string) { _ = nodes.Delete(ctx, name, metav1.DeleteOptions{}) })
	left, err := nodes.List(ctx, metav1.ListOptions{})
	if assert.NoError(t, err) {
		assert.Empty(t, left.Items, "a Node of another test would take this one's pods")
	}
}

// complete waits until all Nodes show what they should carry, and no gate.
func complete(t *testing.T, names []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err == nil && each(names, list.Items, func(node corev1.Node) (string, bool) {
			return node.Name, whole(node.Labels) && !policy.DefaultGate.On(node.Spec.Taints)
		})
	}, settles, 20*time.Millisecond, "all %d Nodes must come to carry %v without the gate", len(names), carried())
}

// whole reports whether labels include all that every Node carries.
func whole(labels map[string]string) bool {
	for key, value := range carried() {
		if got, present := labels[key]; !present || got != value {
			return false
		}
	}
	return true
}

// each reports whether every name is among the items, and as it should be.
func each[T any](names []string, items []T, look func(T) (name string, good bool)) bool {
	good := map[string]bool{}
	for _, item := range items {
		name, ok := look(item)
		good[name] = ok
	}
	for _, name := range names {
		if !good[name] {
			return false
		}
	}
	return true
}
