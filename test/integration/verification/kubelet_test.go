package verification

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// mayReadLogs grants what the chart grants where a profile has a check of kind kubelet.
func mayReadLogs(t *testing.T) {
	t.Helper()
	rights := nodekeep.Admin.RbacV1()
	name := metav1.ObjectMeta{Name: "logs", Namespace: verify.Namespace}
	_, err := rights.Roles(verify.Namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rights.RoleBindings(verify.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "logs"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "nodekeep-verify", Namespace: "nodekeep-system"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { nodekeepKubectl("delete", "role,rolebinding", "logs", "-n", verify.Namespace) })
}

func TestANodeWhoseKubeletTheAPIServerCannotReachStaysTaintedUntilItCan(t *testing.T) {
	warm(t)
	addresses, err := harness.FreeAddresses(1)
	require.NoError(t, err)
	address, err := net.ResolveTCPAddr("tcp", addresses[0])
	require.NoError(t, err)
	registration := harness.RegistrationWith("unreached", map[string]string{selected: "kubelets"})
	registration.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	registration.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(address.Port)
	nodekeep.RegisterNode(t, registration)
	play(t, "unreached", honest) // the worker sees nothing wrong

	// Nobody granted the right: that is no fault of the Node.
	waitFor(t, "unreached", "checked", func(*corev1.Node) bool {
		return harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_controller_errors_total{controller="verify",kind="failure"}`) > 0
	})
	assert.Zero(t, progress(nodekeep.Node(t, "unreached")).Attempts)

	mayReadLogs(t)
	node := waitFor(t, "unreached", "tried", func(node *corev1.Node) bool { // on a busy machine a check may time out before it is refused
		return progress(node).Attempts >= 1 && progress(node).Last.Reason == string(verify.ReasonRefused)
	})
	assert.True(t, held(node))
	assert.Equal(t, verify.VerdictFailed, progress(node).Last.Result)
	assert.Equal(t, "kubelet", progress(node).Last.Check)

	// Now it serves, with a certificate of its own, but not the API server.
	var refuses atomic.Bool
	refuses.Store(true)
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusUnauthorized) // it does not know the API server
			return
		}
		if r.URL.Path[:len("/containerLogs/")] == "/containerLogs/" {
			_, _ = w.Write([]byte("x"))
		}
	}))
	_ = kubelet.Listener.Close()
	kubelet.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", address.Port))
	require.NoError(t, err)
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)
	waitFor(t, "unreached", "refused", func(node *corev1.Node) bool { return progress(node).Last.Reason == string(verify.ReasonNotServing) })
	refuses.Store(false)
	waitOpen(t, "unreached", 1)
}
