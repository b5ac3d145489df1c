package scheduling

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// uninitialized is on a Node of a cloud until the cloud controller has looked at it.
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Every Node is deleted, and with them everything that ran, nodekeep included. The first Node that registers is gated, not
// ready and uninitialized. capture's pod, as shipped, must be bound to it all the same, or nobody would ever lift the gate
// for a cloud controller that does not tolerate it.
func TestAnEmptyClusterRecoversByItself(t *testing.T) {
	const name = "first"
	t.Cleanup(func() { deleteNodes(t, []string{name}) })
	nodekeep.RegisterRecorded(t, name, map[string]string{worker: ""})
	withoutWebhook(t)
	startCapture := withoutCapture(t)
	deleteNodes(t, []string{name})

	registration := harness.Registration(name) // of a kubelet with an external cloud provider
	registration.Spec.Taints = append(registration.Spec.Taints, harness.TaintOf(uninitialized+"=true:NoSchedule"))
	first := nodekeep.RegisterNode(t, registration)
	require.True(t, policy.DefaultGate.Present(first.Spec.Taints))
	require.True(t, tainted(first, corev1.TaintNodeNotReady))

	cloud := pod("cloud-controller", uninitialized, corev1.TaintNodeNotReady)
	clouds := podsIn(t, "cloud")
	_, err := clouds.Create(t.Context(), cloud, metav1.CreateOptions{})
	require.NoError(t, err)
	deployment, err := nodekeep.Admin.AppsV1().Deployments(harness.Namespace).Get(t.Context(), "nodekeep-capture", metav1.GetOptions{})
	require.NoError(t, err)
	ours := nodekeep.Admin.CoreV1().Pods(harness.Namespace)
	shipped := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nodekeep-capture", Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
	_, err = ours.Create(t.Context(), shipped, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, ours.Delete(context.Background(), shipped.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	})
	assert.Equal(t, name, bound(t, ours, shipped.Name))
	require.Eventually(t, func() bool {
		p, err := clouds.Get(t.Context(), cloud.Name, metav1.GetOptions{})
		return err == nil && verdict(p) != ""
	}, settles, 20*time.Millisecond, "the scheduler must try the cloud controller's pod")
	waiting, err := clouds.Get(t.Context(), cloud.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, waiting.Spec.NodeName, "nobody has lifted the gate yet")

	started := time.Now()
	startCapture() // there is no kubelet that would start the pod
	assert.Equal(t, name, bound(t, clouds, cloud.Name))
	t.Logf("the cloud controller's pod was bound %s after capture was started", time.Since(started).Round(10*time.Millisecond))
	node := nodekeep.Node(t, name)
	assert.Contains(t, node.Labels, worker)
	assert.True(t, tainted(node, uninitialized), "that one is the cloud controller's to remove")
}

func tainted(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}
