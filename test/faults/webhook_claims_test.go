package faults

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// forged is a stamp that claims whatever would make nodekeep forget what operators decided, and what would make it believe
// that it has done its work.
const forged = `{"given":{"dedicated":{"value":"ci"},"` + worker + `":{"value":""},"maintenance:NoExecute":{"value":"disk"},` +
	`"node-ready/unverified:NoSchedule":{"value":"true"}},"brought":{"` + worker + `":"","maintenance:NoExecute":"disk"}}`

// What every new Node of these tests gets once, since its kubelet says that it wants to be verified, and what an operator added.
const (
	unverified  = "node-ready/unverified=true:NoSchedule"
	maintenance = "maintenance=disk:NoExecute"
)

var verify = map[string]string{"example.com/verify": "yes"}

func claims() map[string]string {
	return map[string]string{policy.StampAnnotation: forged, policy.TaintsAnnotation: "maintenance=disk:NoExecute,node-ready/unverified=true:NoSchedule"}
}

// writes has a kubelet change metadata of its Node, as a field manager of its choice. The guard policies deny it annotations of nodekeep's.
func writes(t testing.TB, name, manager string, denied bool, metadata map[string]any) {
	t.Helper()
	_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
		harness.MustJSON(t, map[string]any{"metadata": metadata}), metav1.PatchOptions{FieldManager: manager})
	if denied {
		require.ErrorContains(t, err, guardMessage)
		return
	}
	require.NoError(t, err, "NodeRestriction allows annotations")
}

// claimLater has a kubelet set the annotations on its Node as it is.
func claimLater(t testing.TB, name string, guardInForce bool) {
	t.Helper()
	writes(t, name, "", guardInForce, map[string]any{"annotations": claims()})
}

// createClaiming sends the CREATE of a kubelet that wants its Node to be verified, with annotations.
func createClaiming(t testing.TB, name string, annotations map[string]string) {
	t.Helper()
	node := harness.RegistrationWith(name, verify)
	node.Annotations = maps.Clone(annotations)
	nodekeep.RegisterNode(t, node)
}

func TestWhatAKubeletClaimsOfItsNodeMakesNodekeepForgetNothingAndSkipNoTaint(t *testing.T) {
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	guardsSeen(t, 1)
	t.Run("guard policies in force", func(t *testing.T) { claimsAreInVain(t, true) })
	t.Run("without guard policies", func(t *testing.T) {
		withoutGuards(t, func() { claimsAreInVain(t, false) })
	})
}

// claim is what a kubelet does when its Node registers.
type claim struct {
	name string
	act  func(t *testing.T, node string)
	// Without the guard policies a stamp that its kubelet forged as the webhook's or capture's counts: labels that the kubelet may set
	// anyway count as removed (forgets), and no registration taint is added (skips). Protected labels and taints are restored all the same.
	forgets, skips bool
	// The kubelet's own label has no owner any more, and is recorded too.
	disowns bool
}

func claimsAreInVain(t *testing.T, guardInForce bool) {
	noFields := []any{map[string]any{}}
	atCreate := func(t *testing.T, node string) { createClaiming(t, node, claims()) }
	later := func(act func(t *testing.T, node string)) func(t *testing.T, node string) {
		return func(t *testing.T, node string) {
			createClaiming(t, node, nil)
			act(t, node)
		}
	}
	for phase, c := range map[string]struct {
		run    func(t testing.TB, fn func())
		claims []claim
	}{
		"both up": {func(_ testing.TB, fn func()) { fn() }, []claim{
			{name: "at CREATE", act: atCreate},
			{name: "on a Node that is whole, and deleted then", act: func(t *testing.T, node string) {
				createClaiming(t, node, nil)
				arrives(t, node, guardInForce, claim{})
				claimLater(t, node, guardInForce)
				nodekeep.DeleteNode(t, node)
				createClaiming(t, node, nil)
			}},
		}},
		"webhook down": {nodekeep.WithoutWebhook, []claim{
			{name: "at CREATE", act: func(t *testing.T, node string) {
				atCreate(t, node)
				arrives(t, node, guardInForce, claim{})
			}},
		}},
		"capture down": {nodekeep.WithoutCapture, []claim{
			{name: "later", act: later(func(t *testing.T, node string) { claimLater(t, node, guardInForce) })},
			{name: "later, managedFields say that the kubelet wrote the stamp", disowns: true, act: later(func(t *testing.T, node string) {
				writes(t, node, "", false, map[string]any{"managedFields": ownedBy("kubelet")})
			})},
		}},
		// By managedFields nodekeep distinguishes its own stamp from a kubelet's where no policies guard it, and a kubelet may choose the name of
		// its manager and edit them.
		"both down": {nodekeep.WithoutBoth, []claim{
			{name: "at CREATE, then managedFields emptied", forgets: true, skips: true, act: func(t *testing.T, node string) {
				atCreate(t, node)
				writes(t, node, "", false, map[string]any{"managedFields": noFields})
			}},
			{name: "later, behind the gate", act: later(func(t *testing.T, node string) {
				require.True(t, harness.Gated(nodekeep.Node(t, node)))
				claimLater(t, node, guardInForce)
			})},
			{name: "later, in nodekeep's name", forgets: true, act: later(func(t *testing.T, node string) {
				writes(t, node, "nodekeep", guardInForce, map[string]any{"annotations": claims()})
				writes(t, node, "nodekeep", false, map[string]any{"labels": map[string]any{"mine": "1"}, "managedFields": ownedBy("nodekeep")})
			})},
			{name: "later, without any managedFields", forgets: true, skips: true, act: later(func(t *testing.T, node string) {
				writes(t, node, "", guardInForce, map[string]any{"annotations": claims(), "managedFields": noFields})
				writes(t, node, "", false, map[string]any{"managedFields": noFields})
			})},
		}},
	} {
		node := func(n int) string {
			return fmt.Sprintf("claims-%t-%s-%d", guardInForce, strings.ReplaceAll(phase, " ", "-"), n)
		}
		for n := range c.claims {
			registered := nodekeep.Register(t, node(n))
			nodekeep.Label(t, node(n), protected)
			nodekeep.Taint(t, node(n), maintenance)
			nodekeep.WaitRecorded(t, registered, map[string]string{"dedicated": "ci", worker: "", "maintenance:NoExecute": "disk"})
			nodekeep.DeleteNode(t, node(n))
		}
		c.run(t, func() {
			for n, claim := range c.claims {
				claim.act(t, node(n))
			}
		})
		for n, claim := range c.claims {
			t.Run(phase+": "+claim.name, func(t *testing.T) { arrives(t, node(n), guardInForce, claim) })
		}
	}
}

// arrives waits until a Node and its record have all that they should have in spite of a claim.
func arrives(t *testing.T, name string, guardInForce bool, c claim) {
	t.Helper()
	labels := protected
	if c.forgets && !guardInForce {
		labels = map[string]string{worker: ""}
	}
	node := nodekeep.WaitRestored(t, name, labels)
	assert.True(t, harness.Carries(node, maintenance), "what an operator added: %v", node.Spec.Taints)
	assert.True(t, c.skips && !guardInForce || harness.Carries(node, unverified), "what every new Node gets: %v", node.Spec.Taints)
	items := maps.Clone(labels)
	items["maintenance:NoExecute"] = "disk"
	if c.forgets || c.disowns {
		nodekeep.WaitRecordedAtLeast(t, node, items)
		return
	}
	nodekeep.WaitRecorded(t, node, items)
}

// A stamp that lists keys which no record ever had could fill the record with removals, until it is too large to be written.
func TestAKubeletThatListsInventedKeysInItsStampNeitherFillsItsRecordNorHasItWrittenWithoutEnd(t *testing.T) {
	const name = "inventive"
	want := map[string]string{"dedicated": "ci", worker: ""}
	node := nodekeep.RegisterRecorded(t, name, want)
	withoutGuards(t, func() {
		for round := range 4 {
			given := map[string]record.Given{"not a key \x00": {}, strings.Repeat("k", 20_000): {}, "colon:Sometimes": {}}
			for i := range 3000 {
				given[fmt.Sprintf("invented-%d-%d", round, i)] = record.Given{Value: "x"}
			}
			stamp := map[string]string{policy.StampAnnotation: record.Stamp{Given: given}.String()}
			writes(t, name, "nodekeep", false, map[string]any{"annotations": stamp, "managedFields": []any{map[string]any{}}})
			want["edited"] = fmt.Sprint(round)
			nodekeep.Label(t, name, map[string]string{"edited": want["edited"]})
			nodekeep.WaitRecorded(t, node, want)
		}
		assert.Less(t, len(stored(t, name)), 8<<10)
		comesToRest(t, name, 2*time.Second)
	})
	nodekeep.DeleteNode(t, name)
}

// ownedBy returns managedFields by which a manager wrote the stamp.
func ownedBy(manager string) []any {
	return []any{map[string]any{
		"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{".": map[string]any{}, "f:" + policy.StampAnnotation: map[string]any{}}}},
	}}
}

func TestAKubeletCanTakeNeitherTheGateNorAnyTaintOffItsNode(t *testing.T) {
	const name = "untaintable"
	gate := policy.DefaultGate.Taint()
	nodekeep.WithoutCapture(t, func() {
		nodekeep.WithoutWebhook(t, func() { nodekeep.Register(t, name) })
		refuses(t, name, gate.ToString())
	})
	nodekeep.WaitRestored(t, name, nil)
	nodekeep.Taint(t, name, maintenance)
	refuses(t, name, maintenance)
}

// refuses asserts that a kubelet cannot take a taint off its Node, neither by PUT nor by PATCH, nor by deleting the Node.
func refuses(t testing.TB, name, taint string) {
	t.Helper()
	client := nodekeep.Kubelet(t, name).CoreV1().Nodes()
	node := nodekeep.Node(t, name)
	require.True(t, harness.Carries(node, taint), "%v", node.Spec.Taints)
	node.Spec.Taints = nil
	_, err := client.Update(t.Context(), node, metav1.UpdateOptions{})
	require.ErrorContains(t, err, "is not allowed to modify taints")
	_, err = client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "is not allowed to modify taints")
	t.Logf("%s: %v", taint, err)
	err = client.Delete(t.Context(), name, metav1.DeleteOptions{})
	require.True(t, apierrors.IsForbidden(err), "nor can it delete its Node: %v", err)
	assert.True(t, harness.Carries(nodekeep.Node(t, name), taint))
}

// forgeOwners has a kubelet say that a component which sets labels again by itself has set this one: by managedFields, which a kubelet
// may replace, and by an ownership annotation.
func forgeOwners(t testing.TB, name, key string) {
	t.Helper()
	body := harness.MustJSON(t, map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"cluster.x-k8s.io/labels-from-machine": key},
		"managedFields": []map[string]any{{
			"manager": "cloud-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
			"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + key: map[string]any{}}}},
		}},
	}})
	node, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubelet"})
	require.NoError(t, err)
	require.Equal(t, "cloud-controller-manager", node.ManagedFields[0].Manager, "the API server takes it")
}

func TestAKubeletThatForgesOwnersKeepsNoEditOfItsProtectedLabelFromTheRecord(t *testing.T) {
	const name, key = "attack-owners", worker
	node := nodekeep.RegisterRecorded(t, name, map[string]string{key: "a"})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.Label(t, name, map[string]string{key: "b"})
		forgeOwners(t, name, key)
	})
	nodekeep.WaitRecorded(t, node, map[string]string{key: "b"})

	nodekeep.WithoutCapture(t, func() {
		nodekeep.Label(t, name, map[string]any{key: nil})
		forgeOwners(t, name, key)
	})
	nodekeep.WaitRecorded(t, node, map[string]string{})
	nodekeep.DeleteNode(t, name)
	assert.NotContains(t, nodekeep.Register(t, name).Labels, key)
	nodekeep.WaitRestored(t, name, nil)
	assert.NotContains(t, nodekeep.Node(t, name).Labels, key)
}
