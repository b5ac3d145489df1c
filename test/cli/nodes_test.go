package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// testDomain is the label that selects the Nodes of one test.
const testDomain = "example.com/test"

// register makes a Node as its kubelet does.
func register(t *testing.T, name string) {
	t.Helper()
	registerNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}})
}

// registerWith makes a Node as a kubelet with --node-labels does.
func registerWith(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	registerNode(t, harness.RegistrationWith(name, labels))
}

func registerNode(t *testing.T, node *corev1.Node) {
	t.Helper()
	nodekeep.RegisterNode(t, node)
	deletedAtEnd(t, "node", node.Name)
}

// deletedAtEnd has kubectl delete something at the end of the test, if it is there.
func deletedAtEnd(t *testing.T, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		_, _ = nodekeep.Kubectl(context.WithoutCancel(t.Context()), append([]string{"delete", "--ignore-not-found"}, args...)...)
	})
}

// edit labels and taints a Node ("" for none) and waits until that is recorded.
func edit(t *testing.T, name string, labels map[string]string, taints ...string) {
	t.Helper()
	args := []string{"label", "node", name, "--overwrite"}
	for key, value := range labels {
		args = append(args, key+"="+value)
	}
	nodekeep.MustKubectl(t, args...)
	if len(taints) > 0 {
		eventually(t, name, func(r record.Record) bool { return harness.HasAll(r.Items(), labels) }) // so that the taints are a change of their own
		nodekeep.MustKubectl(t, append([]string{"taint", "node", name, "--overwrite"}, taints...)...)
	}
	eventually(t, name, func(r record.Record) bool { return harness.HasAll(r.Items(), labels) && current(t, r) })
}

// remove deletes a Node and waits until that is recorded.
func remove(t *testing.T, name string) {
	t.Helper()
	nodekeep.MustKubectl(t, "delete", "node", name)
	eventually(t, name, func(r record.Record) bool { return !r.DeletedAt.IsZero() })
}

// eventually waits until the record of a Node is as it should be.
func eventually(t *testing.T, name string, next func(record.Record) bool) {
	t.Helper()
	var last record.Record
	harness.Eventually(t, func() bool {
		entry, err := records(t).GetFromAPI(t.Context(), name)
		last = entry.Record
		return err == nil && next(entry.Record)
	}, settles, 20*time.Millisecond, "record of %s: %v", name, &last)
}

// current reports whether the record has the taints that the Node has, whose gate is off.
func current(t *testing.T, r record.Record) bool {
	t.Helper()
	for _, taint := range nodekeep.Node(t, r.Node).Spec.Taints {
		if _, remembered := r.Items()[taint.Key+":"+string(taint.Effect)]; !remembered && taint.Key != corev1.TaintNodeNotReady {
			return false
		}
	}
	return true
}

// eventuallyHas waits until a Node has a label.
func eventuallyHas(t *testing.T, name, key string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		_, ok := nodekeep.Node(t, name).Labels[key]
		return ok
	}, settles, 20*time.Millisecond, "%s has no %s", name, key)
}

// policyFile returns a policy with these sections.
func policyFile(t *testing.T, sections string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(path, []byte(policytest.Manifest(sections+"\n")), 0o600))
	return path
}
