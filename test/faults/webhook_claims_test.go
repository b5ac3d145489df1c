package faults

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
)

// forged is a stamp that claims whatever would make nodekeep forget what people decided, and what would make it believe
// that it has done its work.
const forged = `{"restored":["dedicated","` + worker + `"],"pending":[],` +
	`"taints":{"maintenance:NoExecute":"disk"},"ruleTaints":{"maintenance:NoExecute":"disk","node-ready/unverified:NoSchedule":"true"}}`

// registering is a policy that puts a taint on every new Node once.
const registering = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\ntaints: {register: [{taint: 'node-ready/unverified=true:NoSchedule'}]}\n"

var unverified = corev1.Taint{Key: "node-ready/unverified", Value: "true", Effect: corev1.TaintEffectNoSchedule}

func claims() map[string]string {
	return map[string]string{policy.StampAnnotation: forged, policy.TaintsAnnotation: "maintenance=disk:NoExecute,node-ready/unverified=true:NoSchedule"}
}

// claimLater has a kubelet set the annotations on its Node as it is.
func claimLater(t testing.TB, name string) {
	t.Helper()
	body := mustJSON(t, map[string]any{"metadata": map[string]any{"annotations": claims()}})
	_, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err, "NodeRestriction does not mind annotations")
}

// restartedWith restarts both processes with another policy, and with the old one afterwards.
func restartedWith(t testing.TB, content string, do func()) {
	t.Helper()
	old, err := os.ReadFile(nodekeep.PolicyFile)
	require.NoError(t, err)
	restart := func(content string) {
		require.NoError(t, nodekeep.StopCapture())
		require.NoError(t, nodekeep.StopWebhook())
		require.NoError(t, nodekeep.WritePolicy(content))
		require.NoError(t, nodekeep.Start(t.Context()))
	}
	restart(content)
	defer restart(string(old))
	do()
}

func carriesTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) && t.Value == taint.Value })
}

func TestWhatAKubeletClaimsOfItsNodeMakesNodekeepForgetNothingAndSkipNoTaint(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: "", "maintenance:NoExecute": "disk"}
	labels := map[string]string{"dedicated": "ci", worker: ""}
	maintenance := corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	prepare := func(t *testing.T, name string) {
		node := register(t, name)
		label(t, name, labels)
		mergeNode(t, name, map[string]any{"spec": map[string]any{"taints": []corev1.Taint{maintenance}}})
		remembers(t, node, want)
		deleteNode(t, name)
	}
	create := func(t *testing.T, name string, annotations map[string]string) {
		node := registration(name, nil)
		node.Annotations = maps.Clone(annotations)
		_, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err, "a kubelet must always be able to register its Node")
	}
	whole := func(t *testing.T, name string) {
		node := complete(t, name, labels)
		assert.True(t, carriesTaint(node, maintenance), "what a person put on: %v", node.Spec.Taints)
		assert.True(t, carriesTaint(node, unverified), "what every new Node gets: %v", node.Spec.Taints)
		record := remembers(t, node, want)
		assert.Empty(t, record.Withheld.Items)
	}
	restartedWith(t, registering, func() {
		t.Run("at CREATE, webhook up", func(t *testing.T) {
			prepare(t, "claims-1")
			create(t, "claims-1", claims())
			whole(t, "claims-1")
		})
		t.Run("at CREATE, webhook down", func(t *testing.T) {
			prepare(t, "claims-2")
			withoutWebhook(t, func() {
				create(t, "claims-2", claims())
				whole(t, "claims-2")
			})
		})
		t.Run("later, behind the gate", func(t *testing.T) {
			prepare(t, "claims-3")
			withoutCapture(t, func() {
				withoutWebhook(t, func() {
					create(t, "claims-3", nil)
					require.True(t, gated(getNode(t, "claims-3")))
					claimLater(t, "claims-3")
				})
			})
			whole(t, "claims-3")
		})
		// By managedFields nodekeep tells its own stamp from a kubelet's, and a kubelet may choose the name of its manager and
		// even edit them. What only the kubelet may never set comes all the same; labels that it may set anyway it can talk away.
		for name, c := range map[string]struct {
			metadata   map[string]any
			manager    string
			registered bool
		}{
			"claims-6": {map[string]any{"annotations": claims()}, "nodekeep", true},
			// A limit: without managedFields the stamp looks like the webhook's, which puts registration taints on.
			"claims-7": {map[string]any{"annotations": claims(), "managedFields": []any{map[string]any{}}}, "", false},
		} {
			t.Run(map[bool]string{true: "later, behind the gate, in nodekeep's name", false: "later, behind the gate, without any managedFields"}[c.registered], func(t *testing.T) {
				prepare(t, name)
				withoutCapture(t, func() {
					withoutWebhook(t, func() {
						create(t, name, nil)
						_, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
							mustJSON(t, map[string]any{"metadata": c.metadata}), metav1.PatchOptions{FieldManager: c.manager})
						require.NoError(t, err)
					})
				})
				node := complete(t, name, map[string]string{worker: ""})
				assert.True(t, carriesTaint(node, maintenance), "what a person put on: %v", node.Spec.Taints)
				if c.registered {
					assert.True(t, carriesTaint(node, unverified), "what every new Node gets: %v", node.Spec.Taints)
				}
				t.Logf("registration taint: %t, a label that it may set itself: %t", carriesTaint(node, unverified), hasAll(node.Labels, labels))
				require.Eventually(t, func() bool {
					record, _ := recordOf(t, name)
					_, kept := record.Items[worker]
					return record.UID == node.UID && kept && record.Items["maintenance:NoExecute"] == "disk"
				}, settles, 20*time.Millisecond)
			})
		}
		t.Run("later, webhook up, capture down", func(t *testing.T) {
			prepare(t, "claims-4")
			withoutCapture(t, func() {
				create(t, "claims-4", nil)
				claimLater(t, "claims-4")
			})
			whole(t, "claims-4")
		})
		t.Run("later, on a Node that is whole, and deleted then", func(t *testing.T) {
			prepare(t, "claims-5")
			create(t, "claims-5", nil)
			whole(t, "claims-5")
			claimLater(t, "claims-5")
			deleteNode(t, "claims-5")
			create(t, "claims-5", nil)
			whole(t, "claims-5")
		})
	})
}

func TestAKubeletCanTakeNeitherTheGateNorAnyTaintOffItsNode(t *testing.T) {
	const name = "untaintable"
	maintenance := corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	withoutCapture(t, func() {
		withoutWebhook(t, func() { register(t, name) })
		refuses(t, name, policy.DefaultGate.Taint())
	})
	complete(t, name, nil)
	mergeNode(t, name, map[string]any{"spec": map[string]any{"taints": []corev1.Taint{maintenance}}})
	refuses(t, name, maintenance)
}

// refuses asserts that a kubelet cannot take a taint off its Node, neither by PUT nor by PATCH, nor by deleting the Node.
func refuses(t testing.TB, name string, taint corev1.Taint) {
	t.Helper()
	client := kubelet(t, name).CoreV1().Nodes()
	node := getNode(t, name)
	require.True(t, carriesTaint(node, taint), "%v", node.Spec.Taints)
	node.Spec.Taints = nil
	_, err := client.Update(t.Context(), node, metav1.UpdateOptions{})
	require.ErrorContains(t, err, "is not allowed to modify taints")
	_, err = client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "is not allowed to modify taints")
	t.Logf("%s: %v", taint.ToString(), err)
	err = client.Delete(t.Context(), name, metav1.DeleteOptions{})
	require.True(t, apierrors.IsForbidden(err), "nor can it delete its Node: %v", err)
	assert.True(t, carriesTaint(getNode(t, name), taint))
}
