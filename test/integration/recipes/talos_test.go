package recipes

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

const (
	talosWorker = "talos-storage-1"
	ownedLabels = "talos.dev/owned-labels"
	ownedTaints = "talos.dev/owned-taints"
)

// applyAsTalos writes what a machine configuration says of a worker, as Talos does: with the kubelet's identity, all in one UPDATE. A label that
// exists with another value and is not its own stays as it is.
func applyAsTalos(t *testing.T, labels map[string]string, taints ...string) error {
	t.Helper()
	nodes := nodekeep.Kubelet(t, talosWorker).CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(t.Context(), talosWorker, metav1.GetOptions{})
		require.NoError(t, err)
		for key, value := range labels {
			if _, exists := node.Labels[key]; !exists || strings.Contains(node.Annotations[ownedLabels], strconv.Quote(key)) {
				node.Labels[key] = value
			}
		}
		var keys []string
		for _, text := range taints {
			taint := harness.TaintOf(text)
			keys = append(keys, taint.Key)
			if !harness.Carries(node, text) {
				node.Spec.Taints = append(node.Spec.Taints, taint)
			}
		}
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[ownedLabels], node.Annotations[ownedTaints] = jsonList(t, slices.Sorted(maps.Keys(labels))), jsonList(t, keys)
		_, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{FieldManager: "machined"})
		return err
	})
}

func jsonList(t *testing.T, keys []string) string {
	t.Helper()
	text, err := json.Marshal(keys)
	require.NoError(t, err)
	return string(text)
}

// talos#6750 and talos#13443: what Talos cannot set on a worker, a rule sets.
func TestRulesGiveTalosWorkersTheRolesAndTaintsThatTalosMayNotSet(t *testing.T) {
	const (
		name  = talosWorker
		role  = "node-role.kubernetes.io/storage"
		taint = "storage:NoSchedule"
	)
	own := map[string]string{"rack": "7"}
	refused := func(err error, because string) {
		t.Helper()
		require.ErrorContains(t, err, because)
		assert.NotContains(t, nodekeep.Node(t, name).Labels, "rack", "one UPDATE: the labels that it may set do not arrive either")
	}
	t.Cleanup(func() { deleteNode(t, name) })
	nodekeep.Register(t, name)
	nodekeep.WaitRestored(t, name, nil) // an UPDATE of a state with the gate would be refused for the taints alone
	refused(applyAsTalos(t, map[string]string{"rack": "7", role: ""}), "is not allowed to modify labels: "+role)
	refused(applyAsTalos(t, own, taint), "is not allowed to modify taints")
	deleteNode(t, name)

	policy := pageYAML(t, "labels-in-git.md", "Talos: roles of workers", "labels:\n")
	usePolicy(t, policy)
	watcher := nodekeep.WatchNodes(t)
	created := nodekeep.Register(t, name)
	assert.True(t, harness.Carries(created, taint) || harness.Gated(created), "%v", harness.TaintsOf(created))
	node := nodekeep.WaitRestored(t, name, map[string]string{role: ""})
	assert.True(t, harness.Carries(node, taint), "%v", harness.TaintsOf(node))
	watcher.Stop()
	for _, state := range watcher.States(name) {
		assert.True(t, harness.Gated(state.Node) || hasLabel(state.Node, role) && harness.Carries(state.Node, taint), "no client sees it open without role and taint")
	}

	require.NoError(t, applyAsTalos(t, own), "what its own configuration keeps")
	node = nodekeep.Node(t, name)
	assert.Equal(t, "7", node.Labels["rack"])
	assert.True(t, hasLabel(node, role) && harness.Carries(node, taint))

	require.NoError(t, applyAsTalos(t, own, taint), "a taint that both declare: Talos changes nothing, and counts it as its own")
	assert.Equal(t, `["storage"]`, nodekeep.Node(t, name).Annotations[ownedTaints])
	node, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	node.Spec.Taints = harness.WithoutTaint(node.Spec.Taints, taint) // it is dropped from the machine configuration
	_, err = nodekeep.Kubelet(t, name).CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{FieldManager: "machined"})
	require.ErrorContains(t, err, "is not allowed to modify taints")

	registersAgain := func(rack string) {
		t.Helper()
		nodekeep.DeleteNode(t, name)
		nodekeep.WaitDeletionRecorded(t, name)
		nodekeep.Register(t, name)
		nodekeep.WaitRestored(t, name, map[string]string{role: ""}) // as above; Talos itself tries again
		require.NoError(t, applyAsTalos(t, map[string]string{"rack": "8"}), "the machine configuration has another rack now")
		node := nodekeep.Node(t, name)
		assert.Equal(t, rack, node.Labels["rack"])
		assert.True(t, hasLabel(node, role) && harness.Carries(node, taint), "%v", harness.TaintsOf(node))
	}
	registersAgain("8")
	ignored := "  ignore: [rack]"
	before, after, found := strings.Cut(policy, ignored)
	require.True(t, found)
	_, after, _ = strings.Cut(after, "\n")
	nodekeep.SetPolicy(t, policytest.Manifest(before+after))
	nodekeep.RulesInForce(t)
	require.NoError(t, applyAsTalos(t, own))
	harness.Eventually(t, func() bool { return nodekeep.MustRecord(t, name).Items()["rack"] == "7" }, harness.Settles, 50*time.Millisecond, "nodekeep records it now")
	registersAgain("7") // Talos does not change a label that is not its own

	nodekeep.Label(t, name, map[string]any{"rack": nil}) // the next run begins without it
	harness.Eventually(t, func() bool {
		_, recorded := nodekeep.MustRecord(t, name).Items()["rack"]
		return !recorded
	}, harness.Settles, 50*time.Millisecond)
}
