package harness

import (
	"encoding/json"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
)

// Settles is how long anything that nodekeep does by itself may take in a test on a busy machine.
const Settles = 30 * time.Second

// Kubelet is a client with the identity of a Node's kubelet.
func (i *Installation) Kubelet(t testing.TB, node string) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(i.Cluster.Kubelet(node))
	require.NoError(t, err)
	return client
}

// Register sends a kubelet's CREATE, with --node-labels of its own, and returns the object that the API server stored.
func (i *Installation) Register(t testing.TB, name string, labels ...map[string]string) *corev1.Node {
	t.Helper()
	node, err := i.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), Registration(name, labels...), metav1.CreateOptions{})
	require.NoError(t, err, "a kubelet must always be able to register its Node")
	return node
}

// Recorded registers a Node, labels it as an admin and waits for its record.
func (i *Installation) Recorded(t testing.TB, name string, labels map[string]string) *corev1.Node {
	t.Helper()
	node := i.Register(t, name)
	i.Label(t, name, labels)
	i.RecordHolds(t, node, labels)
	return node
}

// Label sets and removes labels in one request, as `kubectl label` does: a merge patch by an admin.
func (i *Installation) Label(t testing.TB, name string, labels map[string]string, remove ...string) *corev1.Node {
	t.Helper()
	change := map[string]any{}
	for key, value := range labels {
		change[key] = value
	}
	for _, key := range remove {
		change[key] = nil
	}
	return i.Merge(t, name, map[string]any{"labels": change})
}

// Unlabel removes labels as `kubectl label` does.
func (i *Installation) Unlabel(t testing.TB, name string, keys ...string) {
	t.Helper()
	i.Label(t, name, nil, keys...)
}

// Merge changes metadata of a Node by a merge patch of an admin.
func (i *Installation) Merge(t testing.TB, name string, metadata map[string]any) *corev1.Node {
	t.Helper()
	node, err := i.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, MustJSON(t, map[string]any{"metadata": metadata}), metav1.PatchOptions{FieldManager: "kubectl-label"})
	require.NoError(t, err)
	return node
}

// Delete deletes Nodes as an admin.
func (i *Installation) Delete(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, i.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}), "a Node can always be deleted")
	}
}

// Node reads a Node.
func (i *Installation) Node(t testing.TB, name string) *corev1.Node {
	t.Helper()
	node, err := i.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return node
}

// Complete waits until a Node shows these labels and no gate.
func (i *Installation) Complete(t testing.TB, name string, want map[string]string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	require.Eventually(t, func() bool {
		node = i.Node(t, name)
		return HasAll(node.Labels, want) && !Gated(node)
	}, Settles, 20*time.Millisecond, "node %s must come to carry %v without the gate", name, want)
	return node
}

// HasEvent reports whether there is an Event of a reason about a Node.
func (i *Installation) HasEvent(t testing.TB, node, reason string) bool { return len(i.Events(t, node, reason)) > 0 }

// Events are the Events of a reason about a Node.
func (i *Installation) Events(t testing.TB, node, reason string) []corev1.Event {
	t.Helper()
	events, err := i.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node + ",reason=" + reason})
	require.NoError(t, err)
	return events.Items
}

// Gated reports whether a Node carries the gate.
func Gated(node *corev1.Node) bool { return policy.DefaultGate.On(node.Spec.Taints) }

// HasAll reports whether labels hold all of these.
func HasAll(have, want map[string]string) bool {
	for key, value := range want {
		if got, present := have[key]; !present || got != value {
			return false
		}
	}
	return true
}

// With are labels and more labels.
func With(labels, more map[string]string) map[string]string {
	all := maps.Clone(labels)
	maps.Copy(all, more)
	return all
}

// Names are count names with a common beginning, from 1 on.
func Names(prefix string, count int) []string {
	names := make([]string, count)
	for n := range names {
		names[n] = prefix + "-" + strconv.Itoa(n+1)
	}
	return names
}

// MustJSON encodes a value that can always be encoded.
func MustJSON(t testing.TB, value any) []byte {
	t.Helper()
	body, err := json.Marshal(value)
	require.NoError(t, err)
	return body
}
