//go:build e2e

package e2e

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
)

var errStillThere = errors.New("it is still there")

// withoutDeployment runs something while a Deployment has no pods.
func withoutDeployment(t *testing.T, deployment string, fn func()) {
	t.Helper()
	prev := installed.scale(t, deployment, 0)
	defer func() {
		installed.scale(t, deployment, prev)
		installed.called(t)
	}()
	fn()
}

// startedGated lets a kubelet of a cluster without the gate policy put the gate on by itself, as the docs ask for there.
func startedGated(t *testing.T, k *kubelet) {
	t.Helper()
	if !installed.gated(t) {
		t.Log("this cluster has no gate policy; the kubelet registers with the taint by itself")
		k.taints = []corev1.Taint{policy.DefaultGate.Taint()}
	}
}

func keepsNodesGated(t *testing.T) {
	w := watchNodes(t)
	want := ordinary()
	want.labels["node-role.kubernetes.io/e2e"] = ""
	k, _ := known(t, "gate", want)
	startedGated(t, k)
	w.expect(k.name, want)
	withoutDeployment(t, webhookName, func() {
		installed.nodes.DeleteNode(t, k.name)
		node := k.register(t)
		require.NotEmpty(t, want.lacks(node), "nobody can have restored anything yet")
		require.True(t, behindGate(node), "a Node that registers while the webhook is down is gated")
		whole(t, k.name, want)
	})
	installed.nodes.DeleteNode(t, k.name)
	received(t, k, ordinary())
	reread := k.register(t)
	require.Empty(t, ordinary().lacks(reread), "the webhook is back")
	whole(t, k.name, want)
	w.sawNothingBare(t)
}
