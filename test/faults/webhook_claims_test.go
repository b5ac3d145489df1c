package faults

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// forged is a stamp that claims whatever would make nodekeep forget what people decided, and what would make it believe
// that it has done its work.
const forged = `{"given":{"dedicated":{"value":"ci"},"` + worker + `":{"value":""},"maintenance:NoExecute":{"value":"disk"},` +
	`"node-ready/unverified:NoSchedule":{"value":"true"}},"brought":{"` + worker + `":"","maintenance:NoExecute":"disk"}}`

// registering is a policy that puts a taint on every new Node once.
const registering = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\ntaints: {register: [{taint: 'node-ready/unverified=true:NoSchedule'}]}\n"

var unverified = corev1.Taint{Key: "node-ready/unverified", Value: "true", Effect: corev1.TaintEffectNoSchedule}

func claims() map[string]string {
	return map[string]string{policy.StampAnnotation: forged, policy.TaintsAnnotation: "maintenance=disk:NoExecute,node-ready/unverified=true:NoSchedule"}
}

// claimLater has a kubelet set the annotations on its Node as it is, which the guard policies deny it.
func claimLater(t testing.TB, name string, guarded bool) {
	t.Helper()
	body := mustJSON(t, map[string]any{"metadata": map[string]any{"annotations": claims()}})
	_, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{})
	if guarded {
		require.ErrorContains(t, err, guardMessage)
		return
	}
	require.NoError(t, err, "NodeRestriction allows annotations")
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
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	guardsSeen(t, 1)
	t.Run("guard policies in force", func(t *testing.T) { claimsAreInVain(t, true) })
	t.Run("without guard policies", func(t *testing.T) {
		withoutGuards(t, func() { claimsAreInVain(t, false) })
	})
}

func claimsAreInVain(t *testing.T, guarded bool) {
	want := map[string]string{"dedicated": "ci", worker: "", "maintenance:NoExecute": "disk"}
	labels := map[string]string{"dedicated": "ci", worker: ""}
	maintenance := corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	named := func(n int) string { return fmt.Sprintf("claims-%t-%d", guarded, n) }
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
		remembers(t, node, want)
	}
	restartedWith(t, registering, func() {
		t.Run("at CREATE, webhook up", func(t *testing.T) {
			prepare(t, named(1))
			create(t, named(1), claims())
			whole(t, named(1))
		})
		t.Run("at CREATE, webhook down", func(t *testing.T) {
			prepare(t, named(2))
			withoutWebhook(t, func() {
				create(t, named(2), claims())
				whole(t, named(2))
			})
		})
		t.Run("at CREATE, both down, then managedFields emptied", func(t *testing.T) {
			prepare(t, named(8))
			withoutCapture(t, func() {
				withoutWebhook(t, func() {
					create(t, named(8), claims())
					write(t, named(8), "", map[string]any{"managedFields": []any{map[string]any{}}})
				})
			})
			wholeWhereGuarded(t, named(8), guarded, maintenance, whole)
		})
		t.Run("later, behind the gate", func(t *testing.T) {
			prepare(t, named(3))
			withoutCapture(t, func() {
				withoutWebhook(t, func() {
					create(t, named(3), nil)
					require.True(t, gated(getNode(t, named(3))))
					claimLater(t, named(3), guarded)
				})
			})
			whole(t, named(3))
		})
		// By managedFields nodekeep tells its own stamp from a kubelet's where no policies guard it, and a kubelet may choose the name of
		// its manager and edit them.
		t.Run("later, behind the gate, in nodekeep's name", func(t *testing.T) {
			prepare(t, named(6))
			withoutCapture(t, func() {
				withoutWebhook(t, func() {
					create(t, named(6), nil)
					forgeAnnotations(t, named(6), "nodekeep", guarded, map[string]any{"annotations": claims()})
					write(t, named(6), "nodekeep", map[string]any{"labels": map[string]any{"mine": "1"}, "managedFields": ownedBy("nodekeep")})
				})
			})
			node := complete(t, named(6), map[string]string{worker: ""})
			assert.True(t, carriesTaint(node, unverified), "what every new Node gets: %v", node.Spec.Taints)
			wholeButMine(t, named(6), guarded, maintenance, labels)
		})
		t.Run("later, behind the gate, without any managedFields", func(t *testing.T) {
			prepare(t, named(7))
			withoutCapture(t, func() {
				withoutWebhook(t, func() {
					create(t, named(7), nil)
					forgeAnnotations(t, named(7), "", guarded, map[string]any{"annotations": claims(), "managedFields": []any{map[string]any{}}})
					write(t, named(7), "", map[string]any{"managedFields": []any{map[string]any{}}})
				})
			})
			wholeWhereGuarded(t, named(7), guarded, maintenance, whole)
		})
		t.Run("later, webhook up, capture down", func(t *testing.T) {
			prepare(t, named(4))
			withoutCapture(t, func() {
				create(t, named(4), nil)
				claimLater(t, named(4), guarded)
			})
			whole(t, named(4))
		})
		t.Run("later, webhook up, capture down, managedFields say that the kubelet wrote the stamp", func(t *testing.T) {
			prepare(t, named(9))
			withoutCapture(t, func() {
				create(t, named(9), nil)
				write(t, named(9), "", map[string]any{"managedFields": ownedBy("kubelet")})
			})
			whole(t, named(9))
		})
		t.Run("later, on a Node that is whole, and deleted then", func(t *testing.T) {
			prepare(t, named(5))
			create(t, named(5), nil)
			whole(t, named(5))
			claimLater(t, named(5), guarded)
			deleteNode(t, named(5))
			create(t, named(5), nil)
			whole(t, named(5))
		})
	})
}

// write has a kubelet change metadata of its Node.
func write(t testing.TB, name, manager string, metadata map[string]any) {
	t.Helper()
	_, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
		mustJSON(t, map[string]any{"metadata": metadata}), metav1.PatchOptions{FieldManager: manager})
	require.NoError(t, err)
}

// forgeAnnotations has a kubelet try to write annotations of nodekeep's.
func forgeAnnotations(t testing.TB, name, manager string, guarded bool, metadata map[string]any) {
	t.Helper()
	if !guarded {
		write(t, name, manager, metadata)
		return
	}
	_, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
		mustJSON(t, map[string]any{"metadata": metadata}), metav1.PatchOptions{FieldManager: manager})
	require.ErrorContains(t, err, guardMessage)
}

// A stamp that lists keys which no record ever had could fill the record with removals, until it is too large to be written.
func TestAKubeletThatListsInventedKeysInItsStampNeitherFillsItsRecordNorHasItWrittenWithoutEnd(t *testing.T) {
	const name = "inventive"
	want := map[string]string{"dedicated": "ci", worker: ""}
	node := remembered(t, name, want)
	withoutGuards(t, func() {
		for round := range 4 {
			given := map[string]record.Given{"not a key \x00": {}, strings.Repeat("k", 20_000): {}, "colon:Sometimes": {}}
			for i := range 3000 {
				given[fmt.Sprintf("invented-%d-%d", round, i)] = record.Given{Value: "x"}
			}
			body := mustJSON(t, map[string]any{"metadata": map[string]any{"annotations": map[string]string{policy.StampAnnotation: record.Stamp{Given: given}.String()}, "managedFields": []any{map[string]any{}}}})
			_, err := kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "nodekeep"})
			require.NoError(t, err)
			want["edited"] = fmt.Sprint(round)
			label(t, name, map[string]string{"edited": want["edited"]})
			remembers(t, node, want)
		}
		before := recordMap(t, name)
		assert.Less(t, len(before.Data[store.DataKey]), 8<<10)
		time.Sleep(3 * time.Second)
		assert.Equal(t, before.ResourceVersion, recordMap(t, name).ResourceVersion, "nothing is written without a change")
	})
	deleteNode(t, name)
}

// ownedBy are managedFields by which a manager wrote the stamp.
func ownedBy(manager string) []any {
	return []any{map[string]any{
		"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{".": map[string]any{}, "f:" + policy.StampAnnotation: map[string]any{}}}},
	}}
}

// wholeWhereGuarded says what becomes of a Node whose kubelet forged a stamp and emptied managedFields: with the guard policies it
// forged nothing. Without them the stamp looks like the webhook's: no registration taint is added, and labels that the
// kubelet may set anyway count as removed. Protected labels and taints are restored all the same.
func wholeWhereGuarded(t *testing.T, name string, guarded bool, maintenance corev1.Taint, whole func(t *testing.T, name string)) {
	t.Helper()
	if guarded {
		whole(t, name)
		return
	}
	wholeButMine(t, name, guarded, maintenance, nil)
}

func wholeButMine(t *testing.T, name string, guarded bool, maintenance corev1.Taint, labels map[string]string) {
	t.Helper()
	want := map[string]string{worker: ""}
	if guarded {
		want = labels
	}
	node := complete(t, name, want)
	assert.True(t, carriesTaint(node, maintenance), "what a person put on: %v", node.Spec.Taints)
	require.Eventually(t, func() bool {
		record, _ := recordOf(t, name)
		_, kept := record.Items()[worker]
		_, own := record.Items()["dedicated"]
		return record.Newest().UID == node.UID && kept && (own || !guarded) && record.Items()["maintenance:NoExecute"] == "disk"
	}, settles, 20*time.Millisecond)
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
