package faults

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// Records cannot be written for a while. What is edited meanwhile is recorded once it is over; what is registered meanwhile
// has all that needs no record, and waits behind the gate for the rest.
func TestEditsMadeWhileRecordsCannotBeWrittenAreRecordedOnceTheyCan(t *testing.T) {
	p := captureProxy(t)
	for _, c := range []struct {
		name, prefix string
		fault        proxy.Fault
		lasts        time.Duration // 0: until all is right in spite of it
	}{
		{"every second write meets a conflict", "conflicts", proxy.Answer(proxy.RecordWrites, http.StatusConflict, metav1.StatusReasonConflict, 2), 0},
		{"every second write is answered 500", "shaken", proxy.Answer(proxy.RecordWrites, http.StatusInternalServerError, metav1.StatusReasonInternalError, 2), 0},
		{"every write meets a conflict for two seconds", "all-conflicts", proxy.Answer(proxy.RecordWrites, http.StatusConflict, metav1.StatusReasonConflict, 1), 2 * time.Second},
		{"every write is answered 429 for two seconds", "all-slowed", proxy.Answer(proxy.RecordWrites, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 1), 2 * time.Second},
		{"every write is answered 500 for two seconds", "all-shaken", proxy.Answer(proxy.RecordWrites, http.StatusInternalServerError, metav1.StatusReasonInternalError, 1), 2 * time.Second},
		{"every write hangs for two seconds", "hanging", proxy.Hang(proxy.RecordWrites, 2*time.Second), 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := newPeople(t, c.prefix, 4)
			defer all.forget(t)
			for _, person := range all {
				person.set("lane", "v0")
			}
			all.areRight(t, "NoSchedule")
			watcher := nodekeep.WatchNodes(t)
			failed := captureSeries(t, `nodekeep_controller_errors_total{controller="capture",kind="failure"}`)
			p.Break(c.fault)
			for _, person := range all {
				person.set("example.com/k0", "edited")
				person.set("lane", "v1")
			}
			for _, person := range all[:2] { // the deletion hook is the webhook's, whose writes go through
				person.delete()
				person.register()
			}
			if c.lasts > 0 {
				time.Sleep(c.lasts)
				p.Break(nil)
			}
			took := all.areRight(t, "NoSchedule")
			p.Break(nil)
			all.neverSchedulableWithoutLabel(t, watcher.Stop())
			failed = captureSeries(t, `nodekeep_controller_errors_total{controller="capture",kind="failure"}`) - failed
			t.Logf("whole %s after it was over; the counter of failures rose by %.0f", took.Round(time.Millisecond), failed)
		})
	}
}

// A write that is never answered must not keep its worker for ever: sixteen of them would be all there are.
func TestRecordWritesThatAreNeverAnsweredDoNotStopCapture(t *testing.T) {
	takesMinutes(t)
	captureWith(t, nodekeep.Route, noElection, "--workers=2")
	p := captureProxy(t)
	names := names("unanswered", 4)
	for _, name := range names {
		nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1"})
	}
	p.Break(proxy.Hang(proxy.Times(proxy.RecordWrites, 2), 10*time.Minute))
	started := time.Now()
	for _, name := range names {
		nodekeep.Label(t, name, map[string]string{"a": "2"})
	}
	for _, name := range names {
		harness.Eventually(t, func() bool { record, ok := nodekeep.Record(t, name); return ok && record.Items()["a"] == "2" }, 2*time.Minute, 20*time.Millisecond, "the edit of node %s must be recorded", name)
	}
	t.Logf("two workers, two writes without an answer: all recorded after %s", time.Since(started).Round(time.Second))
	for _, name := range names {
		nodekeep.DeleteNode(t, name)
	}
}

// The quota is a real one; what it counts is written by the test, since no controller manager runs here.
func TestAQuotaThatIsUsedUpDelaysFirstRecordsAndNothingElse(t *testing.T) {
	const known, fresh = "quota-known", "quota-fresh"
	nodekeep.RegisterRecorded(t, known, map[string]string{"a": "1", worker: ""})
	harness.Eventually(t, func() bool {
		return captureSeries(t, "nodekeep_controller_leading") == 1
	}, harness.Settles, 20*time.Millisecond)
	quotas := nodekeep.Admin.CoreV1().ResourceQuotas(harness.Namespace)
	limit := corev1.ResourceList{"count/configmaps": resource.MustParse("1")}
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: limit}}, metav1.CreateOptions{})
	require.NoError(t, err)
	quota.Status = corev1.ResourceQuotaStatus{Hard: limit, Used: limit}
	_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	require.NoError(t, err)
	gone := false
	defer func() {
		if !gone {
			_ = quotas.Delete(t.Context(), "full", metav1.DeleteOptions{})
		}
	}()
	require.Eventually(t, func() bool { // the API server takes a moment to see it
		_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	}, harness.Settles, 50*time.Millisecond)

	failed := captureSeries(t, `nodekeep_controller_errors_total{controller="capture",kind="failure"}`)
	nodekeep.Register(t, fresh)
	nodekeep.Label(t, fresh, map[string]string{"b": "2", worker: ""})
	nodekeep.Label(t, known, map[string]string{"a": "2"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, known), map[string]string{"a": "2", worker: ""}) // the record is there, and a change needs no quota
	nodekeep.DeleteNode(t, known)
	nodekeep.WaitRestored(t, nodekeep.Register(t, known).Name, map[string]string{"a": "2", worker: ""})

	harness.Eventually(t, func() bool {
		return captureSeries(t, `nodekeep_controller_errors_total{controller="capture",kind="failure"}`) > failed
	}, harness.Settles, 20*time.Millisecond, "it must be seen that something is wrong")
	_, recorded := nodekeep.Record(t, fresh)
	assert.False(t, recorded)
	require.NoError(t, quotas.Delete(t.Context(), "full", metav1.DeleteOptions{}))
	gone = true
	started := time.Now()
	nodekeep.WaitRecorded(t, nodekeep.Node(t, fresh), map[string]string{"b": "2", worker: ""})
	t.Logf("the first record of a Node was written %s after the quota went", time.Since(started).Round(time.Millisecond))
	nodekeep.DeleteNode(t, known)
	nodekeep.DeleteNode(t, fresh)
}

// On a control plane of its own, with the controllers that empty a namespace. The records of deleted Nodes are
// lost with it; that is what deleting the namespace means.
func TestTheNamespaceOfTheRecordsIsDeletedByAccidentAndInstalledAgain(t *testing.T) {
	control := harness.ForTest(t, harness.Options{ControllerManager: true})
	current, err := nodekeep.InstallOn(t.Context(), control)
	require.NoError(t, err)
	current.TimeoutSeconds = harness.Patient
	shared := nodekeep
	defer func() { nodekeep = shared }()
	nodekeep = current
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

	// The processes run on here, as they would not in a cluster, whose Pods are deleted too. Capture may receive the last records
	// only when the namespace is deleted.
	got := func() (log string, times int) {
		content, err := os.ReadFile(nodekeep.Cluster.LogPath(captureProcess))
		require.NoError(t, err)
		return string(content), strings.Count(string(content), "record of a live node was deleted")
	}
	counted := func(metric string) float64 { return captureSeries(t, metric) }
	const vanished, failures = "nodekeep_capture_records_vanished_total", `nodekeep_controller_errors_total{controller="capture",kind="failure"}`
	assert.Eventually(t, func() bool {
		_, times := got()
		return times >= len(names) && counted(vanished) >= float64(len(names)) && counted(failures) > 0
	}, harness.Settles, 20*time.Millisecond)
	log, times := got()
	assert.Equal(t, len(names), times, "capture must say it once of each Node:\n%s", log)
	assert.InDelta(t, len(names), counted(vanished), 0)
	assert.Positive(t, counted(failures))
	started = time.Now()
	harness.Eventually(t, func() bool {
		name := "born-" + time.Now().Format("150405.000")
		node := nodekeep.Register(t, name)
		nodekeep.DeleteNode(t, name)
		return !harness.Gated(node)
	}, harness.Settles, 100*time.Millisecond, "gating must stop with its off switch")
	t.Logf("gating had stopped %s later", time.Since(started).Round(time.Millisecond))
	require.NoError(t, nodekeep.StopWebhook())
	require.NoError(t, nodekeep.StopCapture())
	nodekeep.WaitGating(t, false)
	bare := nodekeep.Register(t, "bare")
	assert.False(t, harness.Gated(bare), "Nodes go on registering, and nobody would lift a gate")
	_, err = nodekeep.Kubelet(t, bare.Name).CoreV1().Nodes().Patch(t.Context(), bare.Name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err, "the guard policies have no namespace and stay; they keep no kubelet from its status")
	claimLater(t, bare.Name, true)
	nodekeep.Label(t, names[0], map[string]string{"edited": "meanwhile"})

	// Apply leaves clientConfig.url, which only tests have, in addition to the Service that the manifest names.
	out, err := nodekeep.Kubectl(t.Context(), "delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "nodekeep")
	require.NoError(t, err, out)
	nodekeep, err = nodekeep.InstallOn(t.Context(), control)
	require.NoError(t, err)
	nodekeep.TimeoutSeconds = harness.Patient
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
	returned := nodekeep.Register(t, names[1])
	assert.True(t, harness.Gated(returned), "the gate is in force again")
	nodekeep.WaitRestored(t, names[1], want)
}

// A client gives a Node more labels than a record has room for. Its record stays as it is until the Node's labels fit again; other
// Nodes are not concerned.
func TestANodeWithMoreLabelsThanARecordHoldsKeepsItsRecordAndStopsNobody(t *testing.T) {
	const huge, o = "too-many-labels", "next-to-too-many-labels"
	node := nodekeep.RegisterRecorded(t, huge, map[string]string{"lane": "before"})
	out := logged(t, nodekeep.Cluster.LogPath(captureProcess))
	failures := captureSeries(t, `nodekeep_controller_errors_total{controller="capture",kind="failure"}`)
	plural, empty := map[string]any{}, map[string]any{}
	for n := range 1500 {
		key := fmt.Sprintf("%s.%s.%s.%s.example/%060d", strings.Repeat("a", 60), strings.Repeat("b", 60), strings.Repeat("c", 60), strings.Repeat("d", 50), n)
		plural[key], empty[key] = strings.Repeat("e", 63), nil
	}
	patch := func(labels map[string]any) {
		t.Helper()
		_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), huge, types.MergePatchType, harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": labels}}), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patch(plural)
	harness.Eventually(t, func() bool {
		return captureSeries(t, `nodekeep_controller_errors_total{controller="capture",kind="failure"}`) > failures
	}, harness.Settles, 20*time.Millisecond)
	assert.Eventually(t, func() bool { return strings.Contains(out(), "let the policy keep fewer labels") }, harness.Settles, 20*time.Millisecond)
	assert.Contains(t, out(), huge)
	assert.Equal(t, map[string]string{"lane": "before"}, nodekeep.MustRecord(t, huge).Items())

	nodekeep.RegisterRecorded(t, o, map[string]string{"lane": "next"})

	empty["lane"] = "after"
	patch(empty)
	nodekeep.WaitRecorded(t, node, map[string]string{"lane": "after"})
}
