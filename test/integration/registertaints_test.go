package integration

import (
	"fmt"
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
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// taintOwners returns the field managers that managedFields name for the list of taints.
func taintOwners(node *corev1.Node) (managers []string) {
	for _, entry := range node.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:taints"`) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// managedFields name who wrote the list of taints last, not who added which taint. A kubelet loses the list to the first controller
// that adds or removes a taint, which happens on every Node that becomes ready. So a taint of --register-with-taints cannot be told
// from a taint that an operator added, and is recorded: docs/platforms.md says so, and names taints.ignore.
func TestATaintThatAKubeletRegistersWithIsRecordedUnlessThePolicyIgnoresIt(t *testing.T) {
	const name, current = "registers-with-taints", "example.com/burnin:NoSchedule"
	node := nodekeep.RegisterNode(t, tainted(name, current))
	assert.Equal(t, []string{"kubelet"}, taintOwners(node), "a webhook's additions to the list count as the kubelet's too")

	// kube-controller-manager adds and removes taints of the node lifecycle.
	body := harness.MustJSON(t, map[string]any{"spec": map[string]any{"taints": append(slices.Clone(node.Spec.Taints), harness.TaintOf("node.kubernetes.io/unreachable:NoSchedule"))}})
	node, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kube-controller-manager"})
	require.NoError(t, err)
	assert.Equal(t, []string{"kube-controller-manager"}, taintOwners(node), "from now on nobody can tell whose the taint is")
	nodekeep.WaitRecorded(t, node, map[string]string{current: ""})

	nodekeep.DeleteNode(t, name)
	returned := nodekeep.Register(t, name)
	assert.True(t, harness.Carries(returned, current), "the record keeps the taint of a kubelet that no longer registers with it")

	withPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  taints: {ignore: [example.com/burnin]}\n", func() {
		nodekeep.DeleteNode(t, name)
		assert.True(t, harness.Carries(nodekeep.RegisterNode(t, tainted(name, current)), current), "the kubelet's own taint stays")
		nodekeep.DeleteNode(t, name)
		assert.False(t, harness.Carries(nodekeep.Register(t, name), current), "taints.ignore leaves the taint to the kubelet")
	})
}

// reboots has the kubelet of a Node report another boot, Ready at once, as after a reboot that nobody noticed.
func reboots(t *testing.T, name, bootID string) *corev1.Node {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":%q},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`, bootID)
	node, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	require.NoError(t, err)
	return node
}

// noted returns the boot that the stamp of a Node names.
func noted(node *corev1.Node) string {
	stamp, _ := record.ParseStamp(node.Annotations[policy.StampAnnotation])
	return stamp.Boot
}

// comesToNote waits until the stamp of a Node names a boot.
func comesToNote(t *testing.T, name, bootID string) (node *corev1.Node) {
	t.Helper()
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		return noted(node) == bootID
	}, settles, 10*time.Millisecond, "the stamp of node %s must come to name boot %s", name, bootID)
	return node
}

func TestARegistrationTaintIsAddedAgainAfterEachRebootAndNotAfterARestartOfTheKubelet(t *testing.T) {
	const name, prev, taint, gpu = "reboots", "reboots-before", "example.com/unchecked=true:NoSchedule", "example.com/gpu-unchecked:NoSchedule"
	ready := harness.Registration(prev)
	ready.Status.Conditions[0].Status = corev1.ConditionTrue
	nodekeep.RegisterNode(t, ready)
	withPolicy(t, policytest.Manifest(`taints: {register: [{taint: "`+taint+`", onReboot: true}, {taint: "`+gpu+`", nodeSelector: gpu=yes, onReboot: true}, {taint: "example.com/once:NoSchedule"}]}`), func() {
		assert.Empty(t, harness.TaintsOf(comesToNote(t, prev, "boot")), "a Node from before the policy: its boot is only noted")
		reboots(t, prev, "boot-2")
		comesToCarry(t, prev, taint)
		nodekeep.WaitEvent(t, prev, "RulesApplied")

		node := nodekeep.Register(t, name)
		assert.Equal(t, []string{"example.com/once:NoSchedule", taint}, harness.TaintsOf(node), "each new Node gets both")
		assert.Equal(t, "boot", noted(node), "from the kubelet's own CREATE")
		nodekeep.Untaint(t, name, taint)
		nodekeep.Untaint(t, name, "example.com/once:NoSchedule")
		_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
		require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		staysAs(t, beats(t, name, 3))

		reboots(t, name, "boot-2")
		node = comesToCarry(t, name, taint)
		assert.Equal(t, "boot-2", noted(node), "in the same PATCH")
		removed := nodekeep.Untaint(t, name, taint)
		staysAs(t, removed)

		nodekeep.Label(t, name, map[string]any{"gpu": "yes"})
		captureHasSeenAll(t)
		nodekeep.WithoutCapture(t, func() { reboots(t, name, "boot-3") })
		comesToCarry(t, name, gpu, taint)
		nodekeep.Untaint(t, name, gpu)
		removed = nodekeep.Untaint(t, name, taint)
		nodekeep.WithoutCapture(t, func() { unwritten(t, removed) })
		staysAs(t, removed)

		nodekeep.DeleteNode(t, name)
		anew := harness.Registration(name)
		anew.Status.NodeInfo.BootID = "boot-4"
		node = nodekeep.RegisterNode(t, anew)
		assert.Equal(t, []string{gpu, "example.com/once:NoSchedule", taint}, harness.TaintsOf(node), "a new Node object is registered as any other")
		assert.Equal(t, "boot-4", noted(node))
	})
	reboots(t, prev, "boot-3")
	assert.Equal(t, []string{taint}, harness.TaintsOf(comesToNote(t, prev, "boot-3")), "the policy does not ask for it any more, and takes nothing off the Node")
}
