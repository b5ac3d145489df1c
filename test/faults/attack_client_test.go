package faults

import (
	"bytes"
	"context"
	"crypto/tls"
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
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestWithAClientAuthorityOnlyTheAPIServerIsAnsweredAndABadFileLeavesTheLastGoodOne(t *testing.T) {
	nodes := recordedNodes(t, "identified", 3, ordinary)
	serving, foreign := newAuthority(t), newAuthority(t)
	files := newMount(t)
	files.put(t, serving.leaf(t, loopback, time.Hour))
	authoritiesFile := filepath.Join(t.TempDir(), "clients.crt")
	require.NoError(t, os.WriteFile(authoritiesFile, []byte("not there yet"), 0o600))
	r := byFiles(t, files, loopback, serving.PEM, "--client-ca-file", authoritiesFile, "--client-name", apiServerName)
	ask := func(path string, shows ...pair) (answer []byte, err error) {
		config := &tls.Config{RootCAs: authorities(serving.PEM)}
		for _, p := range shows {
			identity, err := tls.X509KeyPair(p.certificate, p.key)
			require.NoError(t, err)
			config.Certificates = append(config.Certificates, identity)
		}
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport, Timeout: harness.Settles}).Post("https://"+r.Address+path, "application/json",
			bytes.NewReader(reviewOf(`{"metadata":{"name":"`+nodes.names[0]+`"}}`)))
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}
	apiServer := authority{callers}.client(t, apiServerName)
	paths := []string{"/restore", "/restore-protected", "/deletion"}
	nobodyElse := func() {
		t.Helper()
		for name, shows := range map[string][]pair{
			"no certificate":                  nil,
			"a certificate of another issuer": {foreign.client(t, apiServerName)},
			"a kubelet of the same issuer":    {authority{callers}.client(t, "system:node:"+nodes.names[0])},
		} {
			for _, path := range paths {
				answer, err := ask(path, shows...)
				require.Error(t, err, "%s, %s", name, path)
				assert.Regexp(t, `tls: |reset by peer|broken pipe`, err.Error(), "%s, %s", name, path) // the server may close before it is read why
				assert.Empty(t, answer)
			}
		}
	}
	r.UntilSays(t, "[+] records")
	r.UntilSays(t, "[-] client authorities")
	_, err := ask("/restore", apiServer)
	require.Error(t, err, "nobody is answered before the authorities are known")

	require.NoError(t, os.WriteFile(authoritiesFile, callers.PEM, 0o600))
	r.UntilSays(t, "[+] client authorities")
	untilCalled(t, true)
	nobodyElse()
	m := nodes.comeBack(t)
	t.Logf("%s", m)
	assert.Equal(t, len(nodes.names), m.restored+m.late, "restored in the CREATE: the API server shows its certificate")
	answer, err := ask("/restore", apiServer)
	require.NoError(t, err)
	assert.Contains(t, string(answer), `"allowed":true`)

	base := logged(t, r.Process.LogPath())
	require.NoError(t, os.WriteFile(authoritiesFile, []byte("-----BEGIN CERTIFICATE-----\nbad"), 0o600))
	require.Eventually(t, func() bool { return bytes.Contains([]byte(base()), []byte("the last good ones count")) }, harness.Settles, 10*time.Millisecond)
	assert.True(t, r.Ready())
	nobodyElse()
	_, err = ask("/restore", apiServer)
	require.NoError(t, err)
	nodes.comeBack(t)

	require.NoError(t, os.WriteFile(authoritiesFile, foreign.PEM, 0o600))
	harness.Eventually(t, func() bool { _, err := ask("/restore", foreign.client(t, apiServerName)); return err == nil }, harness.Settles, 50*time.Millisecond, "the new authority counts without a restart")
	_, err = ask("/restore", apiServer)
	require.Error(t, err)
}

// With --metrics-secure, metrics are for those of whom the API server says that they may get them.
func TestSecureMetricsAreServedToThoseWhoMayGetThemOnly(t *testing.T) {
	plain := nodekeep.StartReplica(t, "capture", "--metrics-secure").UntilReady(t).Metrics
	url := strings.Replace(plain, "http://", "https://", 1)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as Prometheus is configured to
	status := func(url, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-webhook")
	require.NoError(t, err)
	scraper := config.BearerToken

	require.Eventually(t, func() bool {
		connection, err := net.Dial("tcp", strings.Split(plain, "/")[2])
		return err == nil && connection.Close() == nil
	}, harness.Settles, 20*time.Millisecond)
	got, body := status(url, scraper)
	assert.Equal(t, http.StatusInternalServerError, got, "capture may not ask the API server about tokens unless it is granted: %s", body)
	grant(t, "metrics-delegator", "system:auth-delegator", "nodekeep-capture")
	require.Eventually(t, func() bool { got, _ := status(url, scraper); return got == http.StatusForbidden }, harness.Settles, 20*time.Millisecond, "who may not get them is refused")
	got, _ = status(url, "")
	assert.Equal(t, http.StatusUnauthorized, got)
	// What was asked above may have used up how many callers are looked at per second.
	require.Eventually(t, func() bool { got, _ = status(url, "made-up"); return got != http.StatusTooManyRequests }, harness.Settles, 20*time.Millisecond)
	assert.Equal(t, http.StatusUnauthorized, got)
	if response, err := client.Get(plain); err == nil { // or the connection is reset
		assert.Equal(t, http.StatusBadRequest, response.StatusCode, "nothing is served without TLS")
		_ = response.Body.Close()
	}

	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}
	_, err = nodekeep.Admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"}, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = nodekeep.Admin.RbacV1().ClusterRoles().Delete(context.Background(), "metrics-reader", metav1.DeleteOptions{})
	})
	grant(t, "metrics-reader", "metrics-reader", "nodekeep-webhook")
	require.Eventually(t, func() bool { got, body = status(url, scraper); return got == http.StatusOK }, harness.Settles, 20*time.Millisecond, "who may get them gets them")
	assert.Contains(t, body, `nodekeep_controller_leading{controller="capture"} `)
}

func grant(t *testing.T, name, role, account string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: harness.Namespace, Name: account}},
	}
	_, err := nodekeep.Admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = nodekeep.Admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}
