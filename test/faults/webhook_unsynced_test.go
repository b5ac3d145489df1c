package faults

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// recordsRead are the requests that list or watch records.
func recordsRead(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps")
}

func TestAWebhookThatHasNotReadItsRecordsYetSendsReviewsBackAndLetsNoNodePassBare(t *testing.T) {
	gone, late := rememberNodes(t, "unsynced", 4, ordinary), rememberNodes(t, "unsynced-late", 4, ordinary)
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), "nodekeep-system", "nodekeep-webhook")
	require.NoError(t, err)
	between, err := proxy.Start(config)
	require.NoError(t, err)
	defer between.Stop()
	release := make(chan struct{})
	between.Break(func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if recordsRead(r) {
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		apiServer.ServeHTTP(w, r)
	})
	require.NoError(t, nodekeep.StopWebhook())
	nodekeep.Route = func(process string, direct *rest.Config) *rest.Config {
		if process == "nodekeep-webhook" {
			return between.Through(direct)
		}
		return direct
	}
	defer func() {
		nodekeep.Route = nil
		require.NoError(t, nodekeep.StopWebhook())
		require.NoError(t, nodekeep.StartWebhook(t.Context()))
	}()
	started := make(chan error, 1)
	go func() { started <- nodekeep.StartWebhook(t.Context()) }() // it waits until the webhook is ready
	require.Eventually(t, func() bool {
		_, body := readiness(nodekeep.ReadyURL("webhook") + "?verbose")
		return strings.Contains(body, "[+] certificate")
	}, settles, 10*time.Millisecond)
	status, body := readiness(nodekeep.ReadyURL("webhook") + "?verbose")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "[-] records: still being read")
	response, err := webhookClient(t).Post("https://"+webhookAddress(t)+"/restore", "application/json", bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	_ = response.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	assert.Equal(t, "0", response.Header.Get("Retry-After"))

	m := gone.comeBack(t)
	assert.Zero(t, m.restored)
	assert.Less(t, m.registered, delayed)

	began := time.Now()
	time.AfterFunc(250*time.Millisecond, func() { close(release) })
	during := late.comeBack(t) // sent back until the records are read
	require.NoError(t, <-started)
	t.Logf("unsynced: %s", m)
	t.Logf("while it syncs: %s; whole again %s after the records could be read", during, round(time.Since(began)-250*time.Millisecond))
	gone.areRestored(t)
}
