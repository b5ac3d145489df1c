package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

const worker = "node-role.kubernetes.io/worker"

// gate is the taint that waits for capture.
const gate = "nodekeep.dev/restoring:NoSchedule"

// settles is how long anything that nodekeep does by itself may take in a test on a busy machine.
const settles = harness.Settles

// eachNode calls do for every name, some at a time.
func eachNode(names []string, fn func(name string)) { harness.Parallel(names, 16, fn) }

// givenTo returns the keys that a Node's stamp says nodekeep set.
func givenTo(t testing.TB, node *corev1.Node) []string {
	t.Helper()
	stamp, ok := record.ParseStamp(node.Annotations[policy.StampAnnotation])
	require.True(t, ok, "node %s must carry a stamp", node.Name)
	return slices.Collect(maps.Keys(stamp.Given))
}

// givenNow returns the stamp of a Node once nodekeep has set labels on the state that it is in now.
func givenNow(t testing.TB, name string, labels map[string]string) string {
	t.Helper()
	version, err := record.ParseVersion(nodekeep.Node(t, name).ResourceVersion)
	require.NoError(t, err)
	return record.Stamp{}.Merge(labels, record.Record{}, version).String()
}

// tainted returns a Node that registers with these taints.
func tainted(name string, texts ...string) *corev1.Node {
	node := harness.Registration(name)
	for _, text := range texts {
		node.Spec.Taints = append(node.Spec.Taints, harness.TaintOf(text))
	}
	return node
}

// beats sends so many status reports of a kubelet, which change only a condition, and returns the Node after the last one.
func beats(t testing.TB, name string, count int) (node *corev1.Node) {
	t.Helper()
	kubelet := nodekeep.Kubelet(t, name).CoreV1().Nodes()
	for n := range count {
		var err error
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Beat%d"}]}}`, n)
		node, err = kubelet.Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubelet"}, "status")
		require.NoError(t, err)
	}
	return node
}

// captureHasSeenAll returns when capture has received every change of Nodes so far. It receives them in order, so the record of a Node that
// registers now proves it.
func captureHasSeenAll(t testing.TB) {
	t.Helper()
	name := fmt.Sprintf("last-%d", time.Now().UnixNano())
	nodekeep.RegisterRecorded(t, name, map[string]string{"last": "1"})
	nodekeep.DeleteNode(t, name)
}

// recordComes waits until the record of a Node is as it should be.
func recordComes(t testing.TB, node string, current func(record.Record) bool) (found record.Record) {
	t.Helper()
	harness.Eventually(t, func() bool {
		found, _ = nodekeep.Record(t, node)
		return current(found)
	}, settles, 20*time.Millisecond, "the record of node %s must come to be as wanted; last seen %+v", node, &found)
	return found
}
