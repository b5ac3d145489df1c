package integration

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestAStandbyTakesOverWhenTheLeaderLeaves(t *testing.T) {
	const name = "failover-1"
	captureLeads(t)
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1"})
	standby := nodekeep.StartReplica(t, "capture").UntilReady(t)
	assert.Zero(t, harness.Series(t, standby.Metrics, "nodekeep_capture_leading"))
	assert.InDelta(t, 1, metric(t, "capture", "nodekeep_capture_leading"), 0)

	started := time.Now()
	nodekeep.WithoutCapture(t, func() {
		nodekeep.Label(t, name, map[string]any{"b": "2"})
		nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"a": "1", "b": "2"})
		t.Logf("the standby recorded a change %s after the leader was told to stop", time.Since(started).Round(10*time.Millisecond))
	})
}

// captureLeads waits until the installed capture leads: it is ready before it has the Lease, and works on Nodes without it.
func captureLeads(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return metric(t, "capture", "nodekeep_capture_leading") == 1 }, settles, 20*time.Millisecond)
}

func TestTheWebhookIsNotReadyBeforeItHasACertificateAndServesItOnceItIsThere(t *testing.T) {
	dir := t.TempDir()
	replica := nodekeep.StartReplica(t, "webhook", "--cert-dir", dir, "--drain", "0s")
	replica.UntilSays(t, "[+] records")
	status, body := harness.Readiness(replica.Probes + "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "[-] certificate")

	secret, err := nodekeep.Admin.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "nodekeep-webhook-tls", metav1.GetOptions{})
	require.NoError(t, err)
	for _, file := range []string{"tls.key", "tls.crt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), secret.Data[file], 0o600))
	}
	replica.UntilReady(t)
}

// A series for each Node would be too many. cmd/nodekeep pins the list of series.
func TestNoSeriesCarriesANodesName(t *testing.T) {
	const name = "measured-1"
	captureLeads(t)
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1"})
	for _, process := range []string{"webhook", "capture"} {
		response, err := http.Get(nodekeep.MetricsURL(process))
		require.NoError(t, err)
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Contains(t, string(page), `nodekeep_store_records{state="readable"}`, process)
		assert.NotContains(t, string(page), name, process)
	}
}
