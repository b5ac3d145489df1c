package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// pausedCapture does something while capture stands still; what it missed comes to it all at once.
func pausedCapture(t *testing.T, fn func()) {
	t.Helper()
	process := nodekeep.Cluster.Process("nodekeep-capture")
	require.NoError(t, process.Pause())
	defer func() { require.NoError(t, process.Resume()) }()
	fn()
}

func TestARestartedKubeletChangesNothing(t *testing.T) {
	const name = "restarted-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci", worker: ""})
	prev, record := nodekeep.Node(t, name), nodekeep.RecordMap(t, name).ResourceVersion
	for range 5 {
		_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
		require.True(t, apierrors.IsAlreadyExists(err), "the CREATE of an existing Node must get past admission: %v", err)
	}
	captureHasSeenAll(t)
	assert.Equal(t, prev.ResourceVersion, nodekeep.Node(t, name).ResourceVersion, "the Node was written")
	assert.Equal(t, record, nodekeep.RecordMap(t, name).ResourceVersion, "the record was written")
}

func TestALabelRemovedFromALiveNodeStaysRemoved(t *testing.T) {
	const name = "removed-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"keep": "1", "drop": "1"})
	nodekeep.Label(t, name, map[string]any{"drop": nil})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"keep": "1"})
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	harness.Eventually(t, func() bool { // in the CREATE, unless the webhook has not received the record's last state yet
		labels := nodekeep.Node(t, name).Labels
		_, present := labels["drop"]
		return labels["keep"] == "1" && !present
	}, settles, 20*time.Millisecond)
}

func TestEditsAfterARestoreWhileCaptureWasDownAreNotUndone(t *testing.T) {
	const name = "edited-2"
	nodekeep.RegisterRecorded(t, name, map[string]string{"keep": "1", "drop": "1", "tier": "old"})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.DeleteNode(t, name)
		returned := nodekeep.Register(t, name)
		require.Equal(t, "1", returned.Labels["drop"], "restored first")
		nodekeep.Label(t, name, map[string]any{"drop": nil, "tier": "new"})
	})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"keep": "1", "tier": "new"})
	assert.NotContains(t, nodekeep.Node(t, name).Labels, "drop", "not restored")
}

func TestANodeThatRegistersGatedByItsKubeletWhileTheWebhookIsDownIsCompletedAndThenReleased(t *testing.T) {
	const name = "completed-2"
	want := map[string]string{"dedicated": "ci", worker: ""}
	nodekeep.RegisterRecorded(t, name, want)
	nodekeep.WithoutWebhook(t, func() {
		nodekeep.DeleteNode(t, name)
		nodekeep.RegisterNode(t, tainted(name, gate))
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
	})
	nodekeep.WaitEvent(t, name, "GateLifted")
}

func TestLabelDeleteAndAddAgainBeforeCaptureLooksLosesNothing(t *testing.T) {
	const name = "hasty-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"first": "1"})
	withoutDeletionHook(t, func() {
		pausedCapture(t, func() {
			nodekeep.Label(t, name, map[string]any{"second": "2", "first": "changed"})
			nodekeep.DeleteNode(t, name)
			returned := nodekeep.Register(t, name)
			assert.Equal(t, "1", returned.Labels["first"], "the webhook cannot know better yet")
		})
	})
	want := map[string]string{"first": "changed", "second": "2"}
	nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
}

// withoutDeletionHook does something while deletions are not recorded as they happen.
func withoutDeletionHook(t *testing.T, fn func()) {
	t.Helper()
	_, hook := nodekeep.DeletionHook(t)
	operations := func(operation string) {
		_, err := nodekeep.Admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), "nodekeep", types.JSONPatchType,
			[]byte(`[{"op": "replace", "path": "`+hook+`/rules/0/operations", "value": ["`+operation+`"]}]`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	inForce := func(want bool) {
		harness.Eventually(t, func() bool { return hookIsCalled(t) == want }, settles, 50*time.Millisecond, "the API server must take the change over")
	}
	operations("CONNECT")
	inForce(false)
	defer func() { operations("DELETE"); inForce(true) }()
	fn()
}

// hookIsCalled deletes a Node in a dry run. The API server counts its call before it answers; the webhook counts only a moment later.
func hookIsCalled(t *testing.T) bool {
	t.Helper()
	calls := func() float64 {
		return nodekeep.APIServerSeries(t).Sum("apiserver_admission_webhook_admission_duration_seconds_count", `name="deletion.nodekeep.dev"`)
	}
	nodes := nodekeep.Admin.CoreV1().Nodes()
	list, err := nodes.List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, list.Items)
	prev := calls()
	require.NoError(t, nodes.Delete(t.Context(), list.Items[0].Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	return calls() > prev
}

func TestAddDeleteAddBeforeCaptureLooksLosesNothing(t *testing.T) {
	const name = "hasty-2"
	want := map[string]string{"dedicated": "ci", worker: ""}
	nodekeep.RegisterRecorded(t, name, want)
	pausedCapture(t, func() {
		for range 3 {
			nodekeep.DeleteNode(t, name)
			nodekeep.Register(t, name)
		}
	})
	nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
}

// capturePatches changes a Node with capture's own identity and manager, as if capture had died right behind it. The stamp names the labels.
func capturePatches(t *testing.T, name string, labels map[string]string, spec map[string]any) {
	t.Helper()
	change := map[string]any{"metadata": map[string]any{
		"labels": labels, "annotations": map[string]string{policy.StampAnnotation: givenNow(t, name, labels)},
	}}
	if spec != nil {
		change["spec"] = spec
	}
	_, err := nodekeep.ClientFor(t, "nodekeep-capture").CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
		harness.MustJSON(t, change), metav1.PatchOptions{FieldManager: "nodekeep"})
	require.NoError(t, err)
}

func TestACrashAfterThePatchAndBeforeTheRecordIsMadeGood(t *testing.T) {
	prev := map[string]string{"keep": "1", "drop": "1"}
	for _, name := range []string{"crashed-1", "crashed-2"} {
		nodekeep.RegisterRecorded(t, name, prev)
	}
	nodekeep.WithoutBoth(t, func() {
		for _, name := range []string{"crashed-1", "crashed-2"} {
			nodekeep.DeleteNode(t, name)
			nodekeep.Register(t, name)
			capturePatches(t, name, prev, nil)
		}
		nodekeep.Label(t, "crashed-2", map[string]any{"drop": nil})
	})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, "crashed-1"), prev)
	assert.True(t, harness.HasAll(nodekeep.Node(t, "crashed-1").Labels, prev))
	nodekeep.WaitRecorded(t, nodekeep.Node(t, "crashed-2"), map[string]string{"keep": "1"})
	assert.NotContains(t, nodekeep.Node(t, "crashed-2").Labels, "drop", "a removal is not undone")
}
