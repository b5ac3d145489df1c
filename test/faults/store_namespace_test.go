package faults

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/harness"
)

// On a control plane of its own, with the controllers that empty a namespace. What was remembered of Nodes that are gone is
// lost with it; that is what deleting the namespace means.
func TestTheNamespaceOfTheRecordsIsDeletedByMistakeAndInstalledAgain(t *testing.T) {
	control := harness.ForTest(t, harness.Options{ControllerManager: true})
	own, err := harness.Install(t.Context(), control)
	require.NoError(t, err)
	shared := nodekeep
	defer func() { nodekeep = shared }()
	nodekeep = own
	require.NoError(t, nodekeep.Start(t.Context()))
	want := map[string]string{"dedicated": "ci", worker: ""}
	names := recordedNodes(t, "kept", 5, want).names

	started := time.Now()
	require.NoError(t, nodekeep.Admin.CoreV1().Namespaces().Delete(t.Context(), harness.Namespace, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := nodekeep.Admin.CoreV1().Namespaces().Get(t.Context(), harness.Namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, 2*harness.Settles, 50*time.Millisecond, "the namespace must go")
	t.Logf("the namespace was gone after %s", time.Since(started).Round(time.Millisecond))

	// The processes run on here, as they would not in a cluster, whose Pods are gone too. Capture may hear of the last records
	// only when the namespace is gone.
	said := func() (log string, times int) {
		content, err := os.ReadFile(nodekeep.Cluster.LogPath(captureProcess))
		require.NoError(t, err)
		return string(content), strings.Count(string(content), "record of a live node is gone")
	}
	counted := func(metric string) float64 { return captureSeries(t, metric) }
	const vanished, failures = "nodekeep_capture_records_vanished_total", "nodekeep_capture_failures_total"
	assert.Eventually(t, func() bool {
		_, times := said()
		return times >= len(names) && counted(vanished) >= float64(len(names)) && counted(failures) > 0
	}, harness.Settles, 20*time.Millisecond)
	log, times := said()
	assert.Equal(t, len(names), times, "capture must say it once of each Node:\n%s", log)
	assert.InDelta(t, len(names), counted(vanished), 0)
	assert.Positive(t, counted(failures))
	started = time.Now()
	require.Eventually(t, func() bool {
		name := "born-" + time.Now().Format("150405.000")
		node := nodekeep.Register(t, name)
		nodekeep.DeleteNode(t, name)
		return !harness.Gated(node)
	}, harness.Settles, 100*time.Millisecond, "gating must stop with its off switch")
	t.Logf("gating had stopped %s later", time.Since(started).Round(time.Millisecond))
	require.NoError(t, nodekeep.StopWebhook())
	require.NoError(t, nodekeep.StopCapture())
	bare := nodekeep.Register(t, "bare")
	assert.False(t, harness.Gated(bare), "Nodes go on registering, and nobody would lift a gate")
	_, err = nodekeep.Kubelet(t, bare.Name).CoreV1().Nodes().Patch(t.Context(), bare.Name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err, "the guard policies have no namespace and stay; they keep no kubelet from its status")
	claimLater(t, bare.Name, true)
	nodekeep.Label(t, names[0], map[string]string{"edited": "meanwhile"})

	// Apply leaves clientConfig.url, which only tests have, beside the Service that the manifest names.
	out, err := nodekeep.Kubectl(t.Context(), "delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "nodekeep")
	require.NoError(t, err, out)
	nodekeep, err = harness.Install(t.Context(), control)
	require.NoError(t, err)
	started = time.Now()
	require.NoError(t, nodekeep.Start(t.Context()))
	for _, name := range names {
		now := maps.Clone(want)
		if name == names[0] {
			now["edited"] = "meanwhile"
		}
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), now)
	}
	t.Logf("both processes ran and what all live Nodes show was recorded again %s after their start", time.Since(started).Round(time.Millisecond))
	nodekeep.DeleteNode(t, names[1])
	back := nodekeep.Register(t, names[1])
	assert.True(t, harness.Gated(back), "the gate is in force again")
	nodekeep.WaitRestored(t, names[1], want)
}
