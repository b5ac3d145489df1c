package removal

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

var (
	nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	machines   = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
)

const remediate = "cluster.x-k8s.io/remediate-machine"

func admin(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	return client
}

// claim makes a NodeClaim that Karpenter has registered for a Node.
func claim(t *testing.T, name, node, provider string) *unstructured.Unstructured {
	t.Helper()
	made, err := admin(t).Resource(nodeClaims).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"requirements": []any{}, "nodeClassRef": map[string]any{"group": "example.com", "kind": "Class", "name": "c"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Object["status"] = map[string]any{"nodeName": node, "providerID": provider}
	made, err = admin(t).Resource(nodeClaims).UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	return made
}

// machine makes a Machine whose Node has registered.
func machine(t *testing.T, name, node, provider string) *unstructured.Unstructured {
	t.Helper()
	all := admin(t).Resource(machines).Namespace("default")
	made, err := all.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{
			"clusterName": "c", "bootstrap": map[string]any{"dataSecretName": "s"}, "providerID": provider,
			"infrastructureRef": map[string]any{"apiGroup": "example.com", "kind": "Box", "name": "b"},
		},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Object["status"] = map[string]any{"nodeRef": map[string]any{"name": node}}
	made, err = all.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	return made
}

func owner(claim *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.GetName(), UID: claim.GetUID()}
}

// register makes a Node with a providerID of its own name; change is what belongs to it, or what is forged.
func register(t *testing.T, name string, change func(*corev1.Node)) *corev1.Node {
	t.Helper()
	node := harness.Registration(name)
	node.Spec.ProviderID = "box://" + name
	if change != nil {
		change(node)
	}
	nodekeep.RegisterNode(t, node) // by its kubelet, which may write all of this
	return nodekeep.Node(t, name)
}

func ofMachine(namespace, name string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Annotations = map[string]string{"cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": namespace}
	}
}

func ofClaim(claims ...*unstructured.Unstructured) func(*corev1.Node) {
	return func(node *corev1.Node) {
		for _, item := range claims {
			node.OwnerReferences = append(node.OwnerReferences, owner(item))
		}
	}
}

func TestWhatAKubeletForgesRemovesNothing(t *testing.T) {
	victim := claim(t, "victim-claim", "victim", "box://victim")
	sameName := claim(t, "forged-provider", "forged-5", "box://another")
	gone := claim(t, "gone", "forged-2", "box://forged-2")
	require.NoError(t, admin(t).Resource(nodeClaims).Delete(t.Context(), "gone", metav1.DeleteOptions{}))
	anew := claim(t, "gone", "forged-3", "box://forged-3") // the same name, another uid
	require.NotEqual(t, gone.GetUID(), anew.GetUID())
	machine(t, "victim-machine", "victim", "box://victim")
	machine(t, "provider-machine", "forged-12", "box://another")
	for name, row := range map[string]struct {
		node   string
		kind   verify.RemovalKind
		change func(*corev1.Node)
		says   string
	}{
		"the NodeClaim of another Node":    {"forged-1", verify.RemoveNodeClaim, ofClaim(victim), `status.nodeName of that NodeClaim is "victim"`},
		"a NodeClaim of another uid":       {"forged-3", verify.RemoveNodeClaim, ofClaim(gone), "that NodeClaim has the uid"},
		"two NodeClaims":                   {"forged-4", verify.RemoveNodeClaim, ofClaim(victim, anew), "2 ownerReferences"},
		"a NodeClaim with another machine": {"forged-5", verify.RemoveNodeClaim, ofClaim(sameName), "status.providerID"},
		"no NodeClaim":                     {"forged-6", verify.RemoveNodeClaim, nil, "0 ownerReferences"},
		"a NodeClaim that does not exist": {"forged-7", verify.RemoveNodeClaim, func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: "none", UID: "u"}}
		}, "does not exist"},
		"a NodeClaim with a path for its name": {"forged-8", verify.RemoveNodeClaim, func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: "../x", UID: "u"}}
		}, "cannot exist"},
		"a NodeClaim of another group": {"forged-9", verify.RemoveNodeClaim, func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "NodeClaim", Name: "victim-claim", UID: victim.GetUID()}}
		}, "0 ownerReferences"},
		"the Machine of another Node":           {"forged-10", verify.RemoveMachine, ofMachine("default", "victim-machine"), `names Node "victim"`},
		"no Machine":                            {"forged-11", verify.RemoveMachine, nil, "lacks the annotation"},
		"a Machine with another machine":        {"forged-12", verify.RemoveMachine, ofMachine("default", "provider-machine"), "spec.providerID"},
		"a Machine that does not exist":         {"forged-13", verify.RemoveMachine, ofMachine("default", "none"), "does not exist"},
		"a Machine in a path for its namespace": {"forged-14", verify.RemoveMachine, ofMachine("default/x", "victim-machine"), "cannot exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newRemover(t).Confirm(t.Context(), register(t, row.node, row.change), row.kind)
			var refused *remove.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, row.says)
			assert.ErrorContains(t, err, row.node)
		})
	}
}

func TestAnObjectThatChangedSinceItWasConfirmedIsNotRemoved(t *testing.T) {
	remover := newRemover(t)
	current := claim(t, "changing", "changing", "box://changing")
	machine(t, "changing", "changing", "box://changing")
	node := register(t, "changing", func(node *corev1.Node) {
		ofMachine("default", "changing")(node)
		ofClaim(current)(node)
	})
	_, err := remover.Confirm(t.Context(), node, verify.KeepNode)
	require.ErrorContains(t, err, "removes nothing")
	var targets []remove.Target
	for _, kind := range verify.RemovalKinds() {
		target, err := remover.Confirm(t.Context(), node, kind)
		require.NoError(t, err)
		targets = append(targets, target)
	}
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	_, err = admin(t).Resource(nodeClaims).Patch(t.Context(), "changing", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = admin(t).Resource(machines).Namespace("default").Patch(t.Context(), "changing", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), "changing", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	for _, target := range targets {
		require.ErrorIs(t, remover.Remove(t.Context(), target), remove.ErrChanged, "%s", target)
	}

	// Other objects of the same names, too.
	require.NoError(t, admin(t).Resource(nodeClaims).Delete(t.Context(), "changing", metav1.DeleteOptions{}))
	claim(t, "changing", "changing", "box://changing")
	require.NoError(t, admin(t).Resource(machines).Namespace("default").Delete(t.Context(), "changing", metav1.DeleteOptions{}))
	machine(t, "changing", "changing", "box://changing")
	nodekeep.DeleteNode(t, "changing")
	register(t, "changing", nil)
	for _, target := range targets {
		require.ErrorIs(t, remover.Remove(t.Context(), target), remove.ErrChanged, "%s", target)
	}
	assert.False(t, marked(t, "changing"))

	// One that does not exist any more is removed.
	require.NoError(t, admin(t).Resource(nodeClaims).Delete(t.Context(), "changing", metav1.DeleteOptions{}))
	require.NoError(t, admin(t).Resource(machines).Namespace("default").Delete(t.Context(), "changing", metav1.DeleteOptions{}))
	nodekeep.DeleteNode(t, "changing")
	for _, target := range targets {
		require.NoError(t, remover.Remove(t.Context(), target), "%s", target)
	}
}

// runPod has a Pod on a Node; change is what is special about it.
func runPod(t *testing.T, name, node string, change func(*corev1.Pod)) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}} // no controller makes it here
	if _, err := nodekeep.Admin.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	item := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if change != nil {
		change(item)
	}
	pods := nodekeep.Admin.CoreV1().Pods("default")
	made, err := pods.Create(t.Context(), item, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	if made.Status = item.Status; made.Status.Phase != "" {
		_, err = pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
}

func ofDaemonSet(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "u", Controller: new(true)}}
}

func TestAPodThatIsNotOfADaemonSetAndNotStaticKeepsItsNode(t *testing.T) {
	remover := newRemover(t)
	nodekeep.RegisterNode(t, harness.Registration("occupied"))
	runPod(t, "agent", "occupied", ofDaemonSet)
	runPod(t, "static", "occupied", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	runPod(t, "ended", "occupied", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	runPod(t, "elsewhere", "another", nil)
	blocking, err := remover.Blocking(t.Context(), "occupied")
	require.NoError(t, err)
	assert.Empty(t, blocking)
	runPod(t, "workload", "occupied", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "w", UID: "u", Controller: new(true)}}
	})
	blocking, err = remover.Blocking(t.Context(), "occupied")
	require.NoError(t, err)
	assert.Equal(t, "default/workload", blocking)
}
