package scheduling

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// What every Node here carries, in addition to the taint that the rule makes of its first label.
const (
	dedicated = "dedicated" // ci; a kubelet could bring it itself
	worker    = harness.Worker
	tenant    = "tenant" // a taint
)

// settles is how long anything may take by itself in a test on a busy machine.
const settles = harness.Settles

// carried returns what an admin adds to every Node and nodekeep must bring back.
func carried() (labels map[string]string, taints []corev1.Taint) {
	return map[string]string{dedicated: "ci", worker: ""}, []corev1.Taint{{Key: tenant, Value: "a", Effect: corev1.TaintEffectNoSchedule}}
}

// byRule returns the taints that such a Node has by the rules.
func byRule() []corev1.Taint {
	return []corev1.Taint{{Key: dedicated, Value: "ci", Effect: corev1.TaintEffectNoSchedule}}
}

// eachNode calls do for every name, some at a time.
func eachNode(names []string, fn func(name string)) { harness.Parallel(names, 4, fn) }

// rememberThenDelete registers Nodes, labels and taints them as an admin would, waits until all records hold that and
// deletes the Nodes; where an earlier test has left it so, the Nodes need not exist again. What is registered under these
// names goes with the test.
func rememberThenDelete(t *testing.T, names []string) {
	t.Helper()
	t.Cleanup(func() { deleteNodes(t, names) })
	if remembered(t, names) {
		return
	}
	labels, taints := carried()
	eachNode(names, func(name string) {
		nodekeep.Register(t, name)
		nodekeep.Label(t, name, labels)
		nodekeep.Taint(t, name, taints[0].ToString())
	})
	harness.Eventually(t, func() bool { return remembered(t, names) }, settles, 100*time.Millisecond,
		"every record must come to hold %v", record.Join(carried()))
	deleteNodes(t, names)
}

// remembered reports whether the records of all Nodes hold what the Nodes should carry.
func remembered(t *testing.T, names []string) bool {
	list, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
	return err == nil && eachIsGood(names, list.Items, func(cm corev1.ConfigMap) (string, bool) {
		found, err := record.Decode([]byte(cm.Data[store.DataKey]))
		return found.Node, err == nil && maps.Equal(found.Items(), record.Join(carried()))
	})
}

// deleteNodes leaves the scheduler with no Node at all. It works when the test's own context has ended.
func deleteNodes(t *testing.T, names []string) {
	t.Helper()
	ctx, nodes := context.WithoutCancel(t.Context()), nodekeep.Admin.CoreV1().Nodes()
	eachNode(names, func(name string) { _ = nodes.Delete(ctx, name, metav1.DeleteOptions{}) })
	left, err := nodes.List(ctx, metav1.ListOptions{})
	if assert.NoError(t, err) {
		assert.Empty(t, left.Items, "a Node of another test would take this one's pods")
	}
}

// complete waits until all Nodes show what they should carry, and no gate.
func complete(t *testing.T, names []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err == nil && eachIsGood(names, list.Items, func(node corev1.Node) (string, bool) {
			return node.Name, whole(node) && !policy.DefaultGate.Present(node.Spec.Taints)
		})
	}, settles, 20*time.Millisecond, "all %d Nodes must come to carry what they should, without the gate", len(names))
}

// whole reports whether a Node has all that every Node carries.
func whole(node corev1.Node) bool {
	labels, taints := carried()
	return harness.HasAll(record.Join(node.Labels, node.Spec.Taints), record.Join(labels, append(taints, byRule()...)))
}

// eachIsGood reports whether every name is among the items, and as it should be.
func eachIsGood[T any](names []string, items []T, look func(T) (name string, good bool)) bool {
	good := map[string]bool{}
	for _, item := range items {
		name, ok := look(item)
		good[name] = ok
	}
	for _, name := range names {
		if !good[name] {
			return false
		}
	}
	return true
}
