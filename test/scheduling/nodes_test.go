package scheduling

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/install"
)

// Labels of every Node here: one that a kubelet could bring itself, one that NodeRestriction denies to it.
const (
	isolated = "isolated"
	worker   = "node-role.kubernetes.io/worker"
)

// settles is how long anything may take by itself in a test on a busy machine.
const settles = 60 * time.Second

// carried is what an admin puts on every Node and nodekeep must bring back.
func carried() map[string]string { return map[string]string{isolated: "yes", worker: ""} }

// names of Nodes that no other test uses.
func names(prefix string, count int) []string {
	all := make([]string, count)
	for n := range all {
		all[n] = fmt.Sprintf("%s-%03d", prefix, n)
	}
	return all
}

// eachNode calls do for every name, at most atOnce at a time.
func eachNode(names []string, atOnce int, do func(name string)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, name := range names {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			do(name)
		})
	}
	all.Wait()
}

// registration is what a kubelet sends when it starts. Without allocatable resources the scheduler would bind nothing.
func registration(name string) *corev1.Node {
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "starting"}},
			NodeInfo:   corev1.NodeSystemInfo{MachineID: "machine-" + name, SystemUUID: "system-" + name, BootID: "boot", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}

// register sends a kubelet's CREATE and returns what the API server stored; in a dry run, what it would have stored.
func register(t *testing.T, name string, options metav1.CreateOptions) *corev1.Node {
	t.Helper()
	client, err := kubernetes.NewForConfig(nodekeep.Cluster.Kubelet(name))
	require.NoError(t, err)
	node, err := client.CoreV1().Nodes().Create(t.Context(), registration(name), options)
	if !assert.NoError(t, err, "a kubelet must always be able to register its Node") {
		return &corev1.Node{}
	}
	return node
}

func deleteNode(t *testing.T, name string) {
	t.Helper()
	assert.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// remembered registers Nodes, labels them as an admin would and waits until all records hold the labels.
func remembered(t *testing.T, names []string) {
	t.Helper()
	t.Cleanup(func() { removeNodes(t, names) })
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": carried()}})
	require.NoError(t, err)
	eachNode(names, 8, func(name string) {
		register(t, name, metav1.CreateOptions{})
		_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubectl-label"})
		assert.NoError(t, err)
	})
	require.Eventually(t, func() bool {
		list, err := nodekeep.Admin.CoreV1().ConfigMaps(install.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
		require.NoError(t, err)
		whole := map[string]bool{}
		for _, cm := range list.Items {
			var record store.Record
			if record.UnmarshalJSON([]byte(cm.Data[store.DataKey])) == nil {
				whole[record.Node] = maps.Equal(record.Labels, carried())
			}
		}
		return all(names, whole)
	}, settles, 100*time.Millisecond, "every record must come to hold %v", carried())
}

// complete waits until all Nodes show what they should carry, and no gate.
func complete(t *testing.T, names []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		whole := map[string]bool{}
		for _, node := range list.Items {
			whole[node.Name] = bears(node.Labels) && !policy.DefaultGate.On(node.Spec.Taints)
		}
		return all(names, whole)
	}, settles, 50*time.Millisecond, "all %d Nodes must come to carry %v without the gate", len(names), carried())
}

func bears(labels map[string]string) bool {
	for key, value := range carried() {
		if got, present := labels[key]; !present || got != value {
			return false
		}
	}
	return true
}

func all(names []string, whole map[string]bool) bool {
	for _, name := range names {
		if !whole[name] {
			return false
		}
	}
	return true
}

// removeNodes leaves the scheduler without them; the test's own context has ended by then.
func removeNodes(t *testing.T, names []string) {
	eachNode(names, 8, func(name string) {
		_ = nodekeep.Admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	assert.Eventually(t, func() bool {
		list, err := nodekeep.Admin.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	}, settles, 50*time.Millisecond, "the scheduler must have no Nodes left")
}
