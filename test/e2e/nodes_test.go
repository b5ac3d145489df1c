//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// settles is how long what nodekeep does by itself may take in a busy cluster.
const settles = 2 * time.Minute

// requirer is what a Node is to carry: labels, and taints as kubectl writes them.
type requirer struct {
	labels map[string]string
	taints []string
}

// lacks says what a Node does not carry of it; empty if it carries everything.
func (m requirer) lacks(node *corev1.Node) string {
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

// read returns a Node as it is now. One that another client has deleted is an error that says so.
func read(t testing.TB, name string) (*corev1.Node, error) {
	node, err := installed.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read node %q: %w (who else deletes Nodes on this cluster?)", name, err)
	}
	return node, nil
}

// eventually waits until a look finds nothing wrong any more.
func eventually(t testing.TB, look func() error, subject string, args ...any) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, settles, true, func(context.Context) (bool, error) {
		last = look()
		return last == nil, nil
	})
	require.NoError(t, err, "%s; last seen: %v", fmt.Sprintf(subject, args...), last)
}

// remembered waits until the record of a Node object holds all of this.
func remembered(t testing.TB, node *corev1.Node, want requirer) {
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
	UID    string            `json:"uid"`
	Labels map[string]string `json:"labels"`
	Taints []corev1.Taint    `json:"taints"`
}

func recordOf(t testing.TB, node string) (r plainRecord, err error) {
	cm, err := installed.admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	if err != nil {
		return r, fmt.Errorf("read record of node %q: %w", node, err)
	}
	return r, json.Unmarshal([]byte(cm.Data[store.DataKey]), &r)
}

// whole waits until a Node carries all of this and is not behind the gate.
func whole(t testing.TB, name string, want requirer) {
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
