//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// settles is how long what nodekeep does by itself may take in a busy cluster.
const settles = 2 * time.Minute

// must is what a Node is to carry: labels, and taints as kubectl writes them.
type must struct {
	labels map[string]string
	taints []string
}

// lacks says what a Node does not carry of it; empty if it carries everything.
func (m must) lacks(node *corev1.Node) string {
	var lacking []string
	for key, value := range m.labels {
		if got, present := node.Labels[key]; !present || got != value {
			lacking = append(lacking, "label "+key+"="+value)
		}
	}
	for _, taint := range m.taints {
		if !harness.Carries(node, taint) {
			lacking = append(lacking, "taint "+taint)
		}
	}
	slices.Sort(lacking)
	return strings.Join(lacking, ", ")
}

// behindGate says whether workloads are kept off a Node.
func behindGate(node *corev1.Node) bool { return policy.DefaultGate.Holds(node.Spec.Taints) }

// label does what `kubectl label` does; nil takes a label off.
func label(t testing.TB, name string, labels map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	require.NoError(t, err)
	_, err = on.admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubectl-label"})
	require.NoError(t, err)
}

// taint does what `kubectl taint` does: it puts taints on, or with take takes them off.
func taint(t testing.TB, name string, take bool, texts ...string) {
	t.Helper()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := on.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, text := range texts {
			wanted := harness.TaintOf(text)
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&wanted) })
			if !take {
				node.Spec.Taints = append(node.Spec.Taints, wanted)
			}
		}
		_, err = on.admin.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{FieldManager: "kubectl-taint"})
		return err
	}))
}

// remove deletes a Node.
func remove(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, on.admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// read is a Node as it is now. One that another client has deleted is an error that says so.
func read(t testing.TB, name string) (*corev1.Node, error) {
	node, err := on.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read node %q: %w (who else deletes Nodes on this cluster?)", name, err)
	}
	return node, nil
}

// eventually waits until a look finds nothing wrong any more.
func eventually(t testing.TB, look func() error, what string, args ...any) {
	t.Helper()
	var last error
	require.Eventually(t, func() bool {
		last = look()
		return last == nil
	}, settles, 50*time.Millisecond, "%s; last seen: %v", fmt.Sprintf(what, args...), errorOf{&last})
}

// errorOf is printed as the error that is there by then.
type errorOf struct{ err *error }

func (e errorOf) String() string { return fmt.Sprint(*e.err) }

// remembered waits until the record of a Node object holds all of this.
func remembered(t testing.TB, node *corev1.Node, want must) {
	t.Helper()
	eventually(t, func() error {
		record, err := recordOf(t, node.Name)
		if err != nil {
			return err
		}
		if record.UID != string(node.UID) {
			return fmt.Errorf("it is about object %s, and the Node is %s", record.UID, node.UID)
		}
		seen := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: record.Labels}, Spec: corev1.NodeSpec{Taints: record.Taints}}
		if lacking := want.lacks(seen); lacking != "" {
			return fmt.Errorf("it lacks %s", lacking)
		}
		return nil
	}, "the record of node %s must come to hold what the Node carries", node.Name)
}

// plainRecord is what operators see of a record with kubectl.
type plainRecord struct {
	UID       string            `json:"uid"`
	Labels    map[string]string `json:"labels"`
	Taints    []corev1.Taint    `json:"taints"`
	DeletedAt *metav1.Time      `json:"deletedAt"`
}

func recordOf(t testing.TB, node string) (r plainRecord, err error) {
	cm, err := on.admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	if err != nil {
		return r, fmt.Errorf("read record of node %q: %w", node, err)
	}
	return r, json.Unmarshal([]byte(cm.Data[store.DataKey]), &r)
}

// whole waits until a Node carries all of this and is not behind the gate.
func whole(t testing.TB, name string, want must) {
	t.Helper()
	eventually(t, func() error {
		node, err := read(t, name)
		if err != nil {
			return err
		}
		if lacking := want.lacks(node); lacking != "" {
			return fmt.Errorf("it lacks %s", lacking)
		}
		if behindGate(node) {
			return fmt.Errorf("it is behind the gate: %v", node.Spec.Taints)
		}
		return nil
	}, "node %s must come to carry what it had, without the gate", name)
}
