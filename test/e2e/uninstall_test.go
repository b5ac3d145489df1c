//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func leavesNoNodeGated(t *testing.T) {
	gated := installed.gated(t)
	k, _ := known(t, "uninstalled", ordinary())
	o := newKubelet(t, "afterwards")
	// Nobody can complete it: both are down.
	for _, name := range []string{webhookName, captureName} {
		installed.scale(t, name, 0)
	}
	startedGated(t, k)
	installed.nodes.DeleteNode(t, k.name)
	require.True(t, behindGate(k.register(t)))
	records := ownRecords(t)

	out, err := installed.uninstall(t.Context())
	require.NoError(t, err)
	t.Log(out)
	node, err := read(t, k.name)
	require.NoError(t, err)
	assert.False(t, behindGate(node), "the uninstall frees Nodes that nobody can complete: %v", node.Spec.Taints)
	if gated {
		assert.False(t, behindGate(o.register(t)), "nothing gates any more")
	}
	assert.Empty(t, installed.nodes.GatedNodes(t), "Nodes behind the gate")
	assert.Equal(t, records, ownRecords(t), "the records stay")
	left, err := installed.nodekeeps(t.Context())
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Empty(t, remains(t), "nothing of the release is left")
}

// remains names what carries the chart's label, but for records.
func remains(t *testing.T) (left []string) {
	t.Helper()
	group := func(name string) schema.GroupVersion { return schema.GroupVersion{Group: name, Version: "v1"} }
	rbac := group("rbac.authorization.k8s.io")
	for _, kind := range []schema.GroupVersionResource{
		group("").WithResource("pods"), group("").WithResource("services"), group("").WithResource("secrets"), group("").WithResource("serviceaccounts"),
		group("batch").WithResource("jobs"),
		rbac.WithResource("roles"), rbac.WithResource("rolebindings"), rbac.WithResource("clusterroles"), rbac.WithResource("clusterrolebindings"),
		group("flowcontrol.apiserver.k8s.io").WithResource("flowschemas"),
		group("networking.k8s.io").WithResource("networkpolicies"),
		group("policy").WithResource("poddisruptionbudgets"),
	} {
		list, err := installed.objects.Resource(kind).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodekeep"})
		require.NoError(t, err)
		for _, object := range list.Items {
			left = append(left, kind.Resource+" "+object.Namespace+"/"+object.Name)
		}
	}
	return left
}

func goesOnWithItsRecords(t *testing.T) {
	k := newKubelet(t, "uninstalled")
	// Deleted while nobody looks.
	installed.nodes.DeleteNode(t, k.name)
	installed.upgrade(t, installed.baseValues())
	installed.called(t)
	require.Empty(t, ordinary().lacks(k.register(t)), "the records of before the uninstall count")
	whole(t, k.name, ordinary())
}
