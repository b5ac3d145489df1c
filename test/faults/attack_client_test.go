package faults

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWithAClientAuthorityOnlyTheAPIServerIsAnsweredAndABadFileLeavesTheLastGoodOne(t *testing.T) {
	nodes := rememberNodes(t, "identified", 3, ordinary)
	serving, foreign := newAuthority(t, "serving"), newAuthority(t, "foreign")
	require.NoError(t, nodekeep.StopWebhook()) // it manages a caBundle of its own
	files := newMount(t)
	files.put(t, serving.leaf(t, loopback, time.Now().Add(time.Hour)))
	authorities := filepath.Join(t.TempDir(), "clients.crt")
	require.NoError(t, os.WriteFile(authorities, []byte("not there yet"), 0o600))
	r := startReplica(t, "webhook-for-clients", "--cert-dir", files.dir, "--drain", "0s", "--client-ca-file", authorities, "--client-name", apiServerName)
	back := pointAt(t, r.address, serving.bundle)
	defer func() {
		back()
		require.NoError(t, nodekeep.StartWebhook(t.Context()))
	}()
	ask := func(path string, shows ...pair) (answer []byte, err error) {
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(serving.bundle)
		for _, p := range shows {
			identity, err := tls.X509KeyPair(p.certificate, p.key)
			require.NoError(t, err)
			config.Certificates = append(config.Certificates, identity)
		}
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport, Timeout: settles}).Post("https://"+r.address+path, "application/json",
			bytes.NewReader(reviewOf(`{"metadata":{"name":"`+nodes.names[0]+`"}}`)))
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}
	apiServer := callers.client(t, apiServerName)
	paths := []string{"/restore", "/restore-protected", "/capture"}
	nobodyElse := func() {
		t.Helper()
		for name, shows := range map[string][]pair{
			"no certificate":                  nil,
			"a certificate of another issuer": {foreign.client(t, apiServerName)},
			"a kubelet of the same issuer":    {callers.client(t, "system:node:"+nodes.names[0])},
		} {
			for _, path := range paths {
				answer, err := ask(path, shows...)
				require.ErrorContains(t, err, "tls: ", "%s, %s", name, path)
				assert.Empty(t, answer)
			}
		}
	}
	r.untilSays(t, "[+] records")
	r.untilSays(t, "[-] client authorities")
	_, err := ask("/restore", apiServer)
	require.Error(t, err, "nobody is answered before the authorities are known")

	require.NoError(t, os.WriteFile(authorities, callers.bundle, 0o600))
	r.untilSays(t, "[+] client authorities")
	untilCalled(t, true)
	nobodyElse()
	m := nodes.comeBack(t)
	t.Logf("%s", m)
	assert.Equal(t, len(nodes.names), m.restored+m.late, "restored in the CREATE: the API server shows its certificate")
	answer, err := ask("/restore", apiServer)
	require.NoError(t, err)
	assert.Contains(t, string(answer), `"allowed":true`)

	since := logged(t, "webhook-for-clients")
	require.NoError(t, os.WriteFile(authorities, []byte("-----BEGIN CERTIFICATE-----\nbad"), 0o600))
	require.Eventually(t, func() bool { return bytes.Contains([]byte(since()), []byte("the last good ones count")) }, settles, 10*time.Millisecond)
	assert.True(t, r.ready())
	nobodyElse()
	_, err = ask("/restore", apiServer)
	require.NoError(t, err)
	nodes.comeBack(t)

	require.NoError(t, os.WriteFile(authorities, foreign.bundle, 0o600))
	require.Eventually(t, func() bool { _, err := ask("/restore", foreign.client(t, apiServerName)); return err == nil }, settles, 50*time.Millisecond, "the new authority counts without a restart")
	_, err = ask("/restore", apiServer)
	require.Error(t, err)
}
