package scheduling

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/test/harness"
)

// cases numbers them, in repeated runs too: their Nodes have names of their own.
var cases atomic.Int64

// processes are the shipped Deployments.
var processes = []string{"webhook", "capture", "verify"}

// shippedPods returns the pods of the Deployments, as they are shipped. The account of verify is not on this cluster, so its pods have another one.
func shippedPods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	objects, err := manifests.Objects(harness.Namespace, func(name string) bool {
		return slices.Contains([]string{"deployment/nodekeep-webhook", "deployment/nodekeep-capture", "deployment/nodekeep-verify"}, name)
	})
	require.NoError(t, err)
	pods := map[string]*corev1.Pod{}
	for _, object := range objects {
		var deployment appsv1.Deployment
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment))
		deployment.Spec.Template.Spec.ServiceAccountName = "nodekeep-capture"
		pods[deployment.Labels["app.kubernetes.io/component"]] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: deployment.Name, Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec,
		}
	}
	require.Len(t, pods, len(processes))
	return pods
}

// known waits until the scheduler knows a Node as it is now: a pod that tolerates everything asks for a label that the Node gets here.
func known(t *testing.T, node string) {
	t.Helper()
	const label = "example.com/known"
	nodekeep.Label(t, node, map[string]string{label: node})
	asks := pod("asks-for-" + node)
	asks.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	asks = withAffinity(asks, label, corev1.NodeSelectorOpIn, node)
	asks.Spec.ServiceAccountName = "nodekeep-capture"
	pods := nodekeep.Admin.CoreV1().Pods(harness.Namespace)
	_, err := pods.Create(t.Context(), asks, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, node, bound(t, pods, asks.Name))
	require.NoError(t, pods.Delete(t.Context(), asks.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// place gives the scheduler replicas of a process, one after another, and returns the Nodes that they are bound to. An empty name is one that the
// scheduler has refused.
func place(t *testing.T, shipped *corev1.Pod, replicas int) (nodes []string) {
	t.Helper()
	pods := nodekeep.Admin.CoreV1().Pods(harness.Namespace)
	for n := range replicas {
		replica := shipped.DeepCopy()
		replica.Name = fmt.Sprintf("%s-%d", shipped.Name, n)
		_, err := pods.Create(t.Context(), replica, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, pods.Delete(context.Background(), replica.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		})
		var tried *corev1.Pod
		require.Eventually(t, func() bool {
			tried, err = pods.Get(t.Context(), replica.Name, metav1.GetOptions{})
			return err == nil && (tried.Spec.NodeName != "" || verdict(tried) != "")
		}, settles, 20*time.Millisecond, "the scheduler must decide")
		if tried.Spec.NodeName == "" {
			t.Logf("%s: %s", replica.Name, verdict(tried))
		}
		nodes = append(nodes, tried.Spec.NodeName)
	}
	return nodes
}

func TestNodekeepsOwnPodsRunWhereTheDocsSay(t *testing.T) {
	type node struct {
		labels map[string]string
		taints []string
	}
	all := func(nodes ...string) map[string][]string {
		return map[string][]string{"webhook": nodes, "capture": nodes, "verify": nodes}
	}
	plain, controlPlane := node{}, node{labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}, taints: []string{"node-role.kubernetes.io/control-plane:NoSchedule"}}
	for name, c := range map[string]struct {
		nodes map[string]node
		want  map[string][]string // of each process, the Nodes of its replicas, in any order
	}{
		"the only Node":                                    {map[string]node{"one": plain}, all("one", "one")},
		"the only Node, of the control plane":              {map[string]node{"one": controlPlane}, all("one", "one")},
		"the only Node, with an operator's taint":          {map[string]node{"one": {taints: []string{"dedicated=ci:NoSchedule"}}}, all("one", "one")},
		"a Node each, where there are two":                 {map[string]node{"one": plain, "two": plain}, all("one", "two")},
		"a Node each, though another is preferred":         {map[string]node{"one": plain, "control": controlPlane}, all("one", "control")},
		"a Node of the control plane first":                {map[string]node{"one": plain, "control": controlPlane, "two": plain}, all("control")},
		"no Node that evicts":                              {map[string]node{"one": {taints: []string{"dedicated=ci:NoExecute"}}}, all("")},
		"no virtual Node":                                  {map[string]node{"one": {labels: map[string]string{"type": "virtual-kubelet"}, taints: []string{"virtual-kubelet.io/provider=azure:NoSchedule"}}}, all("")},
		"no Node that only looks like one":                 {map[string]node{"one": {labels: map[string]string{"type": "kwok"}, taints: []string{"kwok.x-k8s.io/node=fake:NoSchedule"}}}, all("")},
		"no Node of AWS Fargate":                           {map[string]node{"one": {labels: map[string]string{"eks.amazonaws.com/compute-type": "fargate"}, taints: []string{"eks.amazonaws.com/compute-type=fargate:NoSchedule"}}}, all("")},
		"no Node that is lost":                             {map[string]node{"one": {taints: []string{"node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"}}}, all("")},
		"a Node that is not ready, if it is to make it so": {map[string]node{"one": {taints: []string{"node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"}}}, map[string][]string{"webhook": {""}, "capture": {"one", "one"}, "verify": {""}}},
		"the Node that is fit, next to one that is lost":   {map[string]node{"one": plain, "lost": {taints: []string{"node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"}}}, all("one", "one")},
	} {
		t.Run(name, func(t *testing.T) {
			cases.Add(1)
			current := func(name string) string { // what nodekeep remembers of the Nodes of other cases is not theirs
				if name == "" {
					return ""
				}
				return fmt.Sprintf("%s-%d", name, cases.Load())
			}
			var names []string
			for node := range c.nodes {
				names = append(names, current(node))
			}
			t.Cleanup(func() { deleteNodes(t, names) })
			for name, node := range c.nodes {
				name = current(name)
				nodekeep.Register(t, name)
				if node.labels != nil {
					nodekeep.Label(t, name, node.labels)
				}
				nodekeep.ChangeTaints(t, name, func([]corev1.Taint) (taints []corev1.Taint) { // without that of a Node which is not ready, and the gate
					for _, text := range node.taints {
						taints = append(taints, harness.TaintOf(text))
					}
					return taints
				})
				known(t, name)
			}
			for process, pod := range shippedPods(t) {
				t.Run(process, func(t *testing.T) {
					var want []string
					for _, name := range c.want[process] {
						want = append(want, current(name))
					}
					assert.ElementsMatch(t, want, place(t, pod, len(want)))
				})
			}
		})
	}
}

// A kubelet whose machine was taken over would like to have a Pod of nodekeep on it, for its token. It can keep them off, which harms only itself.
func TestAKubeletDrawsNoPodOfNodekeepToItsNode(t *testing.T) {
	cases.Add(1)
	thief, honest := fmt.Sprintf("thief-%d", cases.Load()), fmt.Sprintf("honest-%d", cases.Load())
	t.Cleanup(func() { deleteNodes(t, []string{thief, honest}) })
	for _, name := range []string{thief, honest} {
		nodekeep.Register(t, name)
		nodekeep.ChangeTaints(t, name, func([]corev1.Taint) []corev1.Taint { return nil })
	}
	says := func(label, value string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, value)
		_, err := nodekeep.Kubelet(t, thief).CoreV1().Nodes().Patch(t.Context(), thief, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	require.True(t, apierrors.IsForbidden(says("node-role.kubernetes.io/control-plane", "")), "the label that draws them")
	require.NoError(t, says("type", "kwok"))
	known(t, thief)
	known(t, honest)
	for process, pod := range shippedPods(t) {
		t.Run(process, func(t *testing.T) { assert.Equal(t, []string{honest, honest}, place(t, pod, 2)) })
	}
}
