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

// captureLeads waits until the installed capture leads: it is ready before it has the Lease, and works on Nodes without it.
func captureLeads(t *testing.T) {
	t.Helper()
	harness.Eventually(t, func() bool { return metric(t, "capture", "nodekeep_controller_leading") == 1 }, settles, 20*time.Millisecond)
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
