package harness

import (
	"context"
	"encoding/json"
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
)

// Worker is a label that no kubelet may set.
const Worker = "node-role.kubernetes.io/worker"

// Settles bounds every wait for something that nodekeep does by itself, also on a busy machine.
const Settles = 3 * time.Minute

// MustJSON encodes what always can be encoded.
func MustJSON(t testing.TB, value any) []byte {
	t.Helper()
	body, err := json.Marshal(value)
	require.NoError(t, err)
	return body
}

// HasAll reports whether a map has these keys with these values.
func HasAll(current, want map[string]string) bool {
	for key, value := range want {
		if got, ok := current[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// RegistrationWith returns a Registration with --node-labels.
func RegistrationWith(name string, labels map[string]string) *corev1.Node {
	node := Registration(name)
	maps.Copy(node.Labels, labels)
	return node
}

// Kubelet returns a client with the identity of a Node's kubelet.
func (i *Installation) Kubelet(t testing.TB, node string) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(i.Cluster.Kubelet(node))
	require.NoError(t, err)
	return client
}

// ClientFor returns a client with the identity of a ServiceAccount of the release.
func (i *Installation) ClientFor(t testing.TB, account string) *kubernetes.Clientset {
	t.Helper()
	config, err := i.Cluster.ServiceAccount(t.Context(), Namespace, account)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// Register sends a kubelet's CREATE and returns the object that the API server stored.
func (i *Installation) Register(t testing.TB, name string) *corev1.Node {
	t.Helper()
	return i.RegisterNode(t, Registration(name))
}

// RegisterNode is Register with another Node than the usual one.
func (i *Installation) RegisterNode(t testing.TB, node *corev1.Node) *corev1.Node {
	t.Helper()
	created, err := i.Kubelet(t, node.Name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err, "a kubelet must always be able to register its Node")
	return created
}

// RegisterRecorded registers a Node, labels it and waits for its record.
func (i *Installation) RegisterRecorded(t testing.TB, name string, labels map[string]string) *corev1.Node {
	t.Helper()
	node := i.Register(t, name)
	i.Label(t, name, labels)
	i.WaitRecorded(t, node, labels)
	return node
}

// Label does what `kubectl label` does, as an admin. The values of labels are strings or any: nil removes a label.
func (i *Installation) Label(t testing.TB, name string, labels any) {
	t.Helper()
	i.MergeNode(t, name, map[string]any{"metadata": map[string]any{"labels": labels}})
}

// MergeNode patches a Node with a merge patch, as an admin by kubectl.
func (i *Installation) MergeNode(t testing.TB, name string, change map[string]any) *corev1.Node {
	t.Helper()
	node, err := i.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, MustJSON(t, change), metav1.PatchOptions{FieldManager: "kubectl-label"})
	require.NoError(t, err)
	return node
}

// DeleteNode deletes a Node as an admin.
func (i *Installation) DeleteNode(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, i.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// Node reads a Node.
func (i *Installation) Node(t testing.TB, name string) *corev1.Node {
	t.Helper()
	node, err := i.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return node
}

// Record returns the record of a Node as the API server has it; ok is false where there is none.
func (i *Installation) Record(t testing.TB, node string) (found record.Record, ok bool) {
	t.Helper()
	cm, err := i.Admin.CoreV1().ConfigMaps(Namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	if err != nil {
		return record.Record{}, false
	}
	found, err = store.Decode([]byte(cm.Data[store.DataKey]), node)
	require.NoError(t, err)
	return found, true
}

// WaitRecorded waits until the record of a Node holds exactly these items, for this Node object.
func (i *Installation) WaitRecorded(t testing.TB, node *corev1.Node, want map[string]string) record.Record {
	t.Helper()
	var record record.Record
	Eventually(t, func() bool {
		var ok bool
		record, ok = i.Record(t, node.Name)
		return ok && record.Newest().UID == node.UID && maps.Equal(record.Items(), want)
	}, Settles, 20*time.Millisecond, "the record of node %s must come to hold %v; last seen %+v", node.Name, want, &record)
	return record
}

// WaitRestored waits until a Node shows these labels and no gate.
func (i *Installation) WaitRestored(t testing.TB, name string, want map[string]string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	Eventually(t, func() bool {
		node = i.Node(t, name)
		return HasAll(node.Labels, want) && !Gated(node)
	}, Settles, 20*time.Millisecond, "node %s must come to carry %v without the gate", name, want)
	return node
}

// WaitEvent waits for an Event of a reason about a Node. Events are written one after the other, behind everything else.
func (i *Installation) WaitEvent(t testing.TB, node, reason string) {
	t.Helper()
	var reasons []string
	require.Eventually(t, func() bool {
		events, err := i.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node})
		if err != nil {
			return false
		}
		reasons = nil
		for _, event := range events.Items {
			reasons = append(reasons, event.Reason)
		}
		return slices.Contains(reasons, reason)
	}, 3*Settles, 50*time.Millisecond, "no Event %s about node %s; there are %v", reason, node, &reasons)
}

// Gated reports whether a Node carries the gate.
func Gated(node *corev1.Node) bool { return policy.DefaultGate.Present(node.Spec.Taints) }

// GatedNodes names the Nodes behind the gate.
func (i *Installation) GatedNodes(t testing.TB) (gated []string) {
	t.Helper()
	nodes, err := i.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, node := range nodes.Items {
		if Gated(&node) {
			gated = append(gated, node.Name)
		}
	}
	return gated
}

// WaitGating waits until the API server gates a new Node, or does not, in a dry run. It works when the test's own context has ended.
func (i *Installation) WaitGating(t testing.TB, gating bool) {
	t.Helper()
	Eventually(t, func() bool {
		node, err := i.Kubelet(t, "gating-probe").CoreV1().Nodes().Create(context.WithoutCancel(t.Context()), Registration("gating-probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && Gated(node) == gating
	}, Settles, 50*time.Millisecond, "gating must come to be %t", gating)
}

// WithoutWebhook does something while the webhook is down.
func (i *Installation) WithoutWebhook(t testing.TB, fn func()) {
	t.Helper()
	require.NoError(t, i.StopWebhook())
	defer func() { require.NoError(t, i.StartWebhook(context.WithoutCancel(t.Context()))) }()
	fn()
}

// WithoutCapture does something while capture is down.
func (i *Installation) WithoutCapture(t testing.TB, fn func()) {
	t.Helper()
	require.NoError(t, i.StopCapture())
	defer func() { require.NoError(t, i.StartCapture(context.WithoutCancel(t.Context()))) }()
	fn()
}

// WithoutBoth does something while both processes are down.
func (i *Installation) WithoutBoth(t testing.TB, fn func()) {
	t.Helper()
	i.WithoutCapture(t, func() { i.WithoutWebhook(t, fn) })
}
