//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
)

// kubelet registers a Node of the suite as that Node's kubelet: user system:node:NAME in group system:nodes, by impersonation.
type kubelet struct {
	name   string
	client *kubernetes.Clientset
	// labels are those of its --node-labels.
	labels map[string]string
	// taints are those of its --register-with-taints.
	taints []corev1.Taint
}

// newKubelet makes one for a Node with a name of this run.
func newKubelet(t testing.TB, name string) *kubelet {
	t.Helper()
	k := &kubelet{name: "e2e-" + installed.run + "-" + name}
	config := rest.CopyConfig(installed.config)
	config.UserAgent = "kubelet/nodekeep-e2e" // managedFields are to say kubelet
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + k.name, Groups: []string{"system:nodes"}}
	var err error
	k.client, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return k
}

// node returns what the kubelet sends at its start. There is no room for pods, and the Node is ready: see the package's invariants.
func (k *kubelet) node() *corev1.Node {
	node := harness.Registration(k.name)
	node.Labels[mark] = installed.run
	maps.Copy(node.Labels, k.labels)
	node.Spec.Taints = k.taints
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0"), corev1.ResourceCPU: resource.MustParse("0"), corev1.ResourceMemory: resource.MustParse("0")}
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Conditions = []corev1.NodeCondition{k.ready()}
	return node
}

func (k *kubelet) ready() corev1.NodeCondition {
	now := metav1.Now()
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "a Node of the end-to-end suite, without a machine",
		LastHeartbeatTime: now, LastTransitionTime: now}
}

// register sends a CREATE and returns the object that the API server stored.
func (k *kubelet) register(t testing.TB) *corev1.Node {
	t.Helper()
	node, err := k.client.CoreV1().Nodes().Create(t.Context(), k.node(), metav1.CreateOptions{})
	require.NoError(t, err, "a kubelet must always be able to register its Node")
	return node
}

// inARow is how many reviews show the state of all replicas of the webhook, as far as a client can see.
const inARow = 5

// dryRuns sends CREATEs that store nothing, until several in a row bring what they should.
func (k *kubelet) dryRuns(t testing.TB, subject string, check func(*corev1.Node) error) {
	t.Helper()
	eventually(t, func() error {
		for range inARow {
			node, err := k.client.CoreV1().Nodes().Create(t.Context(), k.node(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			if err := check(node); err != nil {
				return err
			}
		}
		return nil
	}, "%s, of node %s", subject, k.name)
}

// heartbeats reports all Nodes of this run to be ready, every few seconds until ctx ends, as their kubelets would.
func (c *cluster) heartbeats(ctx context.Context) {
	const interval = 10 * time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		nodes, err := c.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: mark + "=" + c.run})
		if err != nil {
			continue
		}
		var all sync.WaitGroup
		for _, node := range nodes.Items {
			all.Go(func() {
				k := &kubelet{name: node.Name}
				body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID}, "status": map[string]any{"conditions": []corev1.NodeCondition{k.ready()}}})
				if err == nil {
					_, _ = c.admin.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: "kubelet"}, "status")
				}
			})
		}
		all.Wait()
	}
}
