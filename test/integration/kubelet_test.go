package integration

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const worker = "node-role.kubernetes.io/worker"

// settles is how long anything that nodekeep does by itself may take in a test on a busy machine.
const settles = 30 * time.Second

// kubelet is a client with the identity of a Node's kubelet.
func kubelet(t testing.TB, node string) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(nodekeep.Cluster.Kubelet(node))
	require.NoError(t, err)
	return client
}

// registration is what a kubelet sends when it starts, with --node-labels of its own.
func registration(name string, labels map[string]string) *corev1.Node {
	node := harness.Registration(name)
	maps.Copy(node.Labels, labels)
	return node
}

// register sends a kubelet's CREATE and returns the object that the API server stored.
func register(t testing.TB, name string) *corev1.Node {
	t.Helper()
	node, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
	require.NoError(t, err, "a kubelet must always be able to register its Node")
	return node
}

// label does what `kubectl label` does: a merge patch by an admin; nil takes a label off.
func label(t testing.TB, name string, labels map[string]any) {
	t.Helper()
	body := mustJSON(t, map[string]any{"metadata": map[string]any{"labels": labels}})
	_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubectl-label"})
	require.NoError(t, err)
}

func deleteNode(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func getNode(t testing.TB, name string) *corev1.Node {
	t.Helper()
	node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return node
}

// recordOf is the record of a Node as the API server has it; ok is false where there is none.
func recordOf(t testing.TB, node string) (found record.Record, ok bool) {
	t.Helper()
	cm, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	if err != nil {
		return record.Record{}, false
	}
	found, err = store.Decode([]byte(cm.Data[store.DataKey]), node)
	require.NoError(t, err)
	return found, true
}

// remembers waits until the record of a Node holds exactly these labels, for this Node object.
func remembers(t testing.TB, node *corev1.Node, want map[string]string) record.Record {
	t.Helper()
	var record record.Record
	require.Eventually(t, func() bool {
		var ok bool
		record, ok = recordOf(t, node.Name)
		return ok && record.Newest().UID == node.UID && maps.Equal(record.Items(), want)
	}, settles, 20*time.Millisecond, "the record of node %s must come to hold %v; last seen %+v", node.Name, want, &record)
	return record
}

// complete waits until a Node shows these labels and no gate.
func complete(t testing.TB, name string, want map[string]string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	require.Eventually(t, func() bool {
		node = getNode(t, name)
		return hasAll(node.Labels, want) && !policy.DefaultGate.On(node.Spec.Taints)
	}, settles, 20*time.Millisecond, "node %s must come to carry %v without the gate", name, want)
	return node
}

func hasAll(have, want map[string]string) bool {
	for key, value := range want {
		if got, present := have[key]; !present || got != value {
			return false
		}
	}
	return true
}

// givenTo are the keys that a Node's stamp says nodekeep set.
func givenTo(t testing.TB, node *corev1.Node) []string {
	t.Helper()
	stamp, ok := record.ParseStamp(node.Annotations[policy.StampAnnotation])
	require.True(t, ok, "node %s must carry a stamp", node.Name)
	return slices.Collect(maps.Keys(stamp.Given))
}

// givenNow is the stamp of a Node once nodekeep has set labels on the state that it is in now.
func givenNow(t testing.TB, name string, labels map[string]string) string {
	t.Helper()
	version, err := record.ParseVersion(getNode(t, name).ResourceVersion)
	require.NoError(t, err)
	return record.Stamp{}.With(labels, version).String()
}
