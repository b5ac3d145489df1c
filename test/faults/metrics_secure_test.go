package faults

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// With --metrics-secure, metrics are for those of whom the API server says that they may get them.
func TestSecureMetricsAreServedToThoseWhoMayGetThemOnly(t *testing.T) {
	_, plain := secondCapture(t, "--metrics-secure", "--leader-elect=true")
	url := strings.Replace(plain, "http://", "https://", 1)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as Prometheus is told to
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

	require.True(t, within(settles, func() bool {
		connection, err := net.Dial("tcp", strings.Split(plain, "/")[2])
		return err == nil && connection.Close() == nil
	}))
	got, body := status(url, scraper)
	assert.Equal(t, http.StatusInternalServerError, got, "capture may not ask the API server about tokens unless it is granted: %s", body)
	grant(t, "metrics-delegator", "system:auth-delegator", "nodekeep-capture")
	require.True(t, within(settles, func() bool { got, _ := status(url, scraper); return got == http.StatusForbidden }), "who may not get them is refused")
	got, _ = status(url, "")
	assert.Equal(t, http.StatusUnauthorized, got)
	// What was asked above may have used up how many callers are looked at per second.
	within(settles, func() bool { got, _ = status(url, "made-up"); return got != http.StatusTooManyRequests })
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
	require.True(t, within(settles, func() bool { got, body = status(url, scraper); return got == http.StatusOK }), "who may get them gets them")
	assert.Contains(t, body, "nodekeep_capture_leading 0")
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
