package scheduling

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// topology is what an operator says of a Node, and what the API server copies to each Pod that is bound to the Node.
var topology = map[string]string{corev1.LabelTopologyZone: "row-1", corev1.LabelTopologyRegion: "hall-a"}

// An API server copies the topology labels of a Node to a Pod when the Pod is bound (KEP-4742), once. Who labels the Node later is too late for
// the Pods that run there by then. What is in the kubelet's CREATE is not.
func TestAPodHasTheTopologyLabelsThatItsNodeHadWhenItWasBound(t *testing.T) {
	pods := podsIn(t, "topology")
	register := map[string]func(t *testing.T, name string) *corev1.Node{
		"later": func(t *testing.T, name string) *corev1.Node { return nodekeep.Register(t, name) },
		"node-labels": func(t *testing.T, name string) *corev1.Node {
			return nodekeep.RegisterNode(t, harness.RegistrationWith(name, topology))
		},
		"nodekeep": func(t *testing.T, name string) *corev1.Node {
			nodekeep.RegisterRecorded(t, name, topology)
			deleteNodes(t, []string{name})
			return nodekeep.Register(t, name)
		},
	}
	for who, create := range register {
		t.Run(who, func(t *testing.T) {
			name := "topology-" + who
			t.Cleanup(func() { deleteNodes(t, []string{name}) })
			inCreate := who != "later"

			created := create(t, name)
			assert.Equal(t, inCreate, harness.HasAll(created.Labels, topology), "the answer to the CREATE")
			first := boundTo(t, pods, name, "first-"+who)
			assert.Equal(t, inCreate, harness.HasAll(first.Labels, topology), "a Pod that the scheduler bound to the Node as it registered: %v", first.Labels)

			nodekeep.Label(t, name, topology)  // as a controller or an operator does; for the others it changes nothing
			assert.Eventually(t, func() bool { // the API server reads Nodes from a cache
				probe := pod("probe-" + who)
				probe.Spec.NodeName = name
				asked, err := pods.Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err == nil && harness.HasAll(asked.Labels, topology)
			}, settles, 20*time.Millisecond)
			second := boundTo(t, pods, name, "second-"+who)
			assert.True(t, harness.HasAll(second.Labels, topology), "a Pod that was bound after the label: %v", second.Labels)

			_, err := pods.Patch(t.Context(), first.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"written":"again"}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			first, err = pods.Get(t.Context(), first.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, inCreate, harness.HasAll(first.Labels, topology), "the first Pod, later: %v", first.Labels)
		})
	}
}

// boundTo has the scheduler bind a Pod to the only Node, once it is ready.
func boundTo(t *testing.T, pods corev1client.PodInterface, node, name string) *corev1.Pod {
	t.Helper()
	_, err := pods.Create(t.Context(), pod(name), metav1.CreateOptions{})
	require.NoError(t, err)
	nodekeep.ChangeTaints(t, node, func(taints []corev1.Taint) []corev1.Taint { // as the controller manager does
		return harness.WithoutTaint(taints, corev1.TaintNodeNotReady+":"+string(corev1.TaintEffectNoSchedule))
	})
	require.Equal(t, node, bound(t, pods, name))
	found, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return found
}
