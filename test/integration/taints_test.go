package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// policyOf returns a policy with this section of taints.
func policyOf(taints string) string {
	return policytest.Manifest("taints:\n" + taints)
}

// comesToCarry waits until a Node has exactly these taints, less what Kubernetes adds by itself.
func comesToCarry(t testing.TB, name string, texts ...string) *corev1.Node {
	t.Helper()
	slices.Sort(texts)
	var node *corev1.Node
	var last []string
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		last = harness.TaintsOf(node)
		return slices.Equal(last, texts)
	}, settles, 10*time.Millisecond, "node %s must come to carry %v; last seen %v", name, texts, &last)
	return node
}

// staysAs checks that nobody has written a Node once capture has seen all that happened.
func staysAs(t testing.TB, node *corev1.Node) {
	t.Helper()
	captureHasSeenAll(t)
	unwritten(t, node)
}

// unwritten checks that nobody has written a Node.
func unwritten(t testing.TB, node *corev1.Node) {
	t.Helper()
	now := nodekeep.Node(t, node.Name)
	require.Equal(t, node.ResourceVersion, now.ResourceVersion, "node %s was written; it carries %v", node.Name, harness.TaintsOf(now))
}

// ruleTaintsOf returns the taints of a Node that nodekeep says it has derived from the labels.
func ruleTaintsOf(t testing.TB, node string) []string {
	t.Helper()
	texts := []string{}
	if found, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err == nil {
		for _, taint := range policy.DerivedTaints(found.Annotations[policy.TaintsAnnotation]) {
			texts = append(texts, taint.ToString())
		}
	}
	return texts
}

// eventsOf counts the Events of a reason about an object.
func eventsOf(t testing.TB, namespace, object, reason string) (count int) {
	t.Helper()
	events, err := nodekeep.Admin.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
	require.NoError(t, err)
	for _, event := range events.Items {
		if event.Reason == reason {
			count += int(event.Count)
		}
	}
	return count
}

// nextEvent returns what waits for one more Event of a reason about an object.
func nextEvent(t testing.TB, namespace, object, reason string) (wait func()) {
	t.Helper()
	index := eventsOf(t, namespace, object, reason)
	return func() {
		t.Helper()
		harness.Eventually(t, func() bool { return eventsOf(t, namespace, object, reason) > index }, 3*settles, 50*time.Millisecond, "one more Event %s about %s", reason, object)
	}
}

// policyEvents is the namespace of Events about the NodePolicy, which has none.
const policyEvents = "default"

// nextPolicyEvent returns what waits for one more Event of a reason about the NodePolicy.
func nextPolicyEvent(t testing.TB, reason string) (wait func()) {
	t.Helper()
	return nextEvent(t, policyEvents, harness.PolicyName, reason)
}

// metric sums the series of a process.
func metric(t *testing.T, process, series string) float64 {
	t.Helper()
	return harness.Series(t, nodekeep.MetricsURL(process), series)
}

// recordVersions returns the versions of all records, by their names.
func recordVersions(t testing.TB) map[string]string {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
	require.NoError(t, err)
	versions := map[string]string{}
	for _, cm := range list.Items {
		versions[cm.Name] = cm.ResourceVersion
	}
	return versions
}

// nodeVersions returns the versions of all Nodes, by their names.
func nodeVersions(t testing.TB) map[string]string {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	versions := map[string]string{}
	for _, node := range list.Items {
		versions[node.Name] = node.ResourceVersion
	}
	return versions
}
