package integration

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func read(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}

// another starts one more process of nodekeep beside the installed ones, with the same identity.
func another(t *testing.T, kind string, args ...string) (probes, metrics string) {
	t.Helper()
	probes, metrics = freeAddress(t), freeAddress(t)
	process, err := nodekeep.Cluster.Go("another-"+kind, nodekeep.Binary(), append([]string{
		kind, "--kubeconfig", filepath.Join(nodekeep.Cluster.Dir(), "nodekeep-"+kind+".kubeconfig"), "--namespace", harness.Namespace,
		"--health-probe-bind-address", probes, "--metrics-bind-address", metrics,
	}, args...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = process.Stop() })
	return "http://" + probes, "http://" + metrics
}

func TestAStandbyTakesOverWhenTheLeaderLeaves(t *testing.T) {
	const name = "failover-1"
	rememberedNode(t, name, map[string]string{"a": "1"})
	probes, metrics := another(t, "capture")
	require.Eventually(t, func() bool { status, _ := read(t, probes+"/readyz"); return status == http.StatusOK }, settles, 20*time.Millisecond)
	_, body := read(t, metrics+"/metrics")
	assert.Contains(t, body, "nodekeep_capture_leading 0")
	_, body = read(t, nodekeep.MetricsURL("capture"))
	assert.Contains(t, body, "nodekeep_capture_leading 1")

	started := time.Now()
	withoutCapture(t, func() {
		label(t, name, map[string]any{"b": "2"})
		remembers(t, getNode(t, name), map[string]string{"a": "1", "b": "2"})
		t.Logf("the standby recorded a change %s after the leader was told to stop", time.Since(started).Round(10*time.Millisecond))
	})
}

func TestTheWebhookIsNotReadyBeforeItHasACertificateAndServesItOnceItIsThere(t *testing.T) {
	dir := t.TempDir()
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	probes, _ := another(t, "webhook", "--cert-dir", dir, "--host", "127.0.0.1", "--port", port, "--drain", "0s")
	var body string
	require.Eventually(t, func() bool { _, body = read(t, probes+"/readyz"); return strings.Contains(body, "[+] records") }, settles, 20*time.Millisecond)
	status, body := read(t, probes+"/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "[-] certificate")

	secret, err := nodekeep.Admin.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "nodekeep-webhook-tls", metav1.GetOptions{})
	require.NoError(t, err)
	for _, file := range []string{"tls.key", "tls.crt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), secret.Data[file], 0o600))
	}
	require.Eventually(t, func() bool { status, body = read(t, probes+"/readyz"); return status == http.StatusOK }, settles, 50*time.Millisecond, "%s", &body)
}

func TestEverySeriesIsThereFromTheStartAndNoneCarriesANodesName(t *testing.T) {
	const name = "measured-1"
	rememberedNode(t, name, map[string]string{"a": "1"})
	for process, want := range map[string][]string{
		"webhook": {
			`nodekeep_webhook_reviews_total{outcome="restored"}`, `nodekeep_webhook_reviews_total{outcome="panicked"} 0`,
			"nodekeep_webhook_review_duration_seconds_bucket", `nodekeep_webhook_labels_total{outcome="deferred"}`,
			"nodekeep_webhook_certificate_expiry_timestamp_seconds", `nodekeep_store_records{state="readable"}`, "nodekeep_policy_file_good 1",
		},
		"capture": {
			`nodekeep_capture_steps_total{step="create"}`, `nodekeep_capture_steps_total{step="follow_rules"}`, `nodekeep_capture_conflicts_total{object="node"}`, "nodekeep_capture_failures_total",
			"nodekeep_capture_nodes ", "nodekeep_capture_nodes_gated ", "nodekeep_capture_queue_length ", "nodekeep_capture_leading 1",
			`nodekeep_store_records{state="unreadable"}`,
			`nodekeep_capture_records_collected_total{outcome="collected"}`, `nodekeep_capture_records_collected_total{outcome="dry_run"} 0`,
			`nodekeep_capture_records_collected_total{outcome="kept"}`, `nodekeep_capture_records_collected_total{outcome="put_back"}`,
			`nodekeep_capture_records_collected_total{outcome="failed"}`, "nodekeep_capture_records_gone ", "nodekeep_capture_records_due ",
		},
	} {
		status, body := read(t, nodekeep.MetricsURL(process))
		require.Equal(t, http.StatusOK, status)
		for _, series := range want {
			assert.Contains(t, body, series, process)
		}
		assert.NotContains(t, body, name, "%s must not have a series per Node", process)
	}
}
