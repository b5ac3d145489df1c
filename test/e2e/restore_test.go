//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// ordinary returns what operators set on Nodes and kubelets may set too.
func ordinary() requirer {
	return requirer{
		labels: map[string]string{domain + "tier": "gold", domain + "rack": "r7"},
		taints: []string{domain + "maintenance=disk:NoSchedule", domain + "tenant=blue:PreferNoSchedule"},
	}
}

// putOn puts this on a Node, as an admin.
func putOn(t testing.TB, node string, key requirer) {
	t.Helper()
	installed.nodes.Label(t, node, key.labels)
	installed.nodes.Taint(t, node, key.taints...)
}

// known registers a Node, puts something on it and waits until that is recorded.
func known(t testing.TB, name string, key requirer) (*kubelet, *corev1.Node) {
	t.Helper()
	k := newKubelet(t, name)
	node := k.register(t)
	putOn(t, k.name, key)
	remembered(t, node, key)
	return k, node
}

// beforeInstall makes a Node with labels and taints while there is no nodekeep.
func beforeInstall(t *testing.T) *kubelet {
	t.Helper()
	k := newKubelet(t, "before")
	node := k.register(t)
	require.False(t, behindGate(node), "there must be no gate before nodekeep is installed")
	putOn(t, k.name, ordinary())
	return k
}

func remembersANodeThatWasThere(t *testing.T, k *kubelet) {
	node, err := read(t, k.name)
	require.NoError(t, err)
	remembered(t, node, ordinary())
	installed.nodes.DeleteNode(t, k.name)
	received(t, k, ordinary())
	reread := k.register(t)
	require.Empty(t, ordinary().lacks(reread), "the object that the CREATE stored must carry everything")
	whole(t, k.name, ordinary())
}

func restoresInTheCreate(t *testing.T) {
	w := watchNodes(t)
	k, first := known(t, "restore", ordinary())
	w.expect(k.name, ordinary())
	for range 3 {
		installed.nodes.DeleteNode(t, k.name)
		received(t, k, ordinary())
		reread := k.register(t)
		require.NotEqual(t, first.UID, reread.UID)
		require.Empty(t, ordinary().lacks(reread), "the object that the CREATE stored must carry everything")
		require.False(t, behindGate(reread), "nothing was left to wait for")
		stamp, ok := record.ParseStamp(reread.Annotations[policy.StampAnnotation])
		require.True(t, ok)
		require.Subset(t, slices.Collect(maps.Keys(stamp.Given)), []string{domain + "tier", domain + "rack"})
	}
	// What an operator removes from a living Node stays removed.
	left := ordinary()
	delete(left.labels, domain+"rack")
	w.expect(k.name, left)
	installed.nodes.Label(t, k.name, map[string]any{domain + "rack": nil})
	eventually(t, func() error {
		r, err := recordOf(t, k.name)
		if err == nil && r.Labels[domain+"rack"] != "" {
			err = errStillThere
		}
		return err
	}, "a label that a client removes must leave the record")
	installed.nodes.DeleteNode(t, k.name)
	received(t, k, left, domain+"rack")
	require.NotContains(t, k.register(t).Labels, domain+"rack")
	whole(t, k.name, left)
	w.sawNothingBare(t)
}

func givesProtectedLabelsBack(t *testing.T) {
	w := watchNodes(t)
	want := ordinary()
	want.labels["node-role.kubernetes.io/e2e"] = ""
	k, _ := known(t, "protected", want)
	w.expect(k.name, want)
	installed.nodes.DeleteNode(t, k.name)
	received(t, k, ordinary())
	reread := k.register(t)
	require.Empty(t, ordinary().lacks(reread), "what kubelets may set is in the CREATE")
	if want.lacks(reread) != "" { // it is there already where the policy says inline
		require.True(t, behindGate(reread), "a Node that waits for a protected label waits behind the gate")
	}
	whole(t, k.name, want)
	w.sawNothingBare(t)
}
