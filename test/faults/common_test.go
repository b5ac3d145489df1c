package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// worker is a label that no kubelet may set.
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

// remembered registers a Node, labels it as a person and waits for its record.
func remembered(t testing.TB, name string, labels map[string]string) *corev1.Node {
	t.Helper()
	node := register(t, name)
	label(t, name, labels)
	remembers(t, node, labels)
	return node
}

// label sets labels as `kubectl label` does: a merge patch by an admin.
func label(t testing.TB, name string, labels map[string]string) {
	t.Helper()
	mergeNode(t, name, map[string]any{"metadata": map[string]any{"labels": labels}})
}

// unlabel takes labels off as `kubectl label` does.
func unlabel(t testing.TB, name string, keys ...string) {
	t.Helper()
	labels := map[string]any{}
	for _, key := range keys {
		labels[key] = nil
	}
	mergeNode(t, name, map[string]any{"metadata": map[string]any{"labels": labels}})
}

func mergeNode(t testing.TB, name string, change map[string]any) {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, mustJSON(t, change), metav1.PatchOptions{FieldManager: "kubectl-label"})
	require.NoError(t, err)
}

func mustJSON(t testing.TB, value any) []byte {
	t.Helper()
	body, err := json.Marshal(value)
	require.NoError(t, err)
	return body
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

// gated reports whether a Node carries the gate.
func gated(node *corev1.Node) bool { return policy.DefaultGate.On(node.Spec.Taints) }

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

// remembers waits until the record of a Node holds exactly these items, for this Node object.
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
		return hasAll(node.Labels, want) && !gated(node)
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

// withoutWebhook does something while the webhook is down.
func withoutWebhook(t testing.TB, do func()) {
	t.Helper()
	require.NoError(t, nodekeep.StopWebhook())
	defer func() { require.NoError(t, nodekeep.StartWebhook(t.Context())) }()
	do()
}

// withoutCapture does something while capture is down.
func withoutCapture(t testing.TB, do func()) {
	t.Helper()
	require.NoError(t, nodekeep.StopCapture())
	defer func() { require.NoError(t, nodekeep.StartCapture(t.Context())) }()
	do()
}

// witness is a Node by whose changes a watch is known to have arrived at a moment.
const witness = "faults-witness"

// watchNodes keeps every state that anybody could see of any Node, from now on. The function that it returns ends the
// watch, once all that is stored so far has arrived, and hands over the states in order.
func watchNodes(t testing.TB) (stop func() []*corev1.Node) {
	t.Helper()
	if _, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), witness, metav1.GetOptions{}); err != nil {
		register(t, witness)
	}
	now, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	watcher, err := nodekeep.Admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	require.NoError(t, err)
	var mu sync.Mutex
	var seen []*corev1.Node
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watcher.ResultChan() {
			node, ok := event.Object.(*corev1.Node)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			mu.Lock()
			seen = append(seen, node)
			mu.Unlock()
		}
	}()
	return func() []*corev1.Node {
		t.Helper()
		const key = "faults.example.com/moment"
		moment := fmt.Sprint(time.Now().UnixNano())
		mergeNode(t, witness, map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: moment}}})
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(seen, func(node *corev1.Node) bool { return node.Name == witness && node.Annotations[key] == moment })
		}, settles, 5*time.Millisecond, "the watch must arrive at this moment")
		watcher.Stop()
		<-ended
		return seen
	}
}

// neverBare says of the states that a watch saw: no Node of these was ever schedulable without what it should carry.
func neverBare(t testing.TB, seen []*corev1.Node, should map[string]map[string]string) {
	t.Helper()
	states := 0
	for _, node := range seen {
		want, ours := should[node.Name]
		if !ours {
			continue
		}
		states++
		if !gated(node) && !hasAll(node.Labels, want) {
			t.Errorf("node %s, version %s, could be scheduled to with labels %v, without %v", node.Name, node.ResourceVersion, node.Labels, want)
		}
	}
	require.NotZero(t, states, "the watch must have seen the Nodes")
}
