package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// tenant is a client that may do everything with ConfigMaps in a namespace of its own, and nothing elsewhere.
func tenant(t testing.TB, namespace string) *kubernetes.Clientset {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	name := metav1.ObjectMeta{Name: "tenant", Namespace: namespace}
	_, err = nodekeep.Admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = nodekeep.Admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.CopyConfig(nodekeep.Cluster.Admin())
	config.Impersonate = rest.ImpersonationConfig{UserName: namespace, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// forgedRecord says of a Node that it had a protected label and a taint that evicts all pods.
func forgedRecord(namespace, node string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name(node), Namespace: namespace, Labels: map[string]string{store.RecordLabel: "true"}},
		Data: map[string]string{store.DataKey: `{"version":1,"node":"` + node + `","uid":"forged","nodeResourceVersion":"1",` +
			`"labels":{"` + worker + `":"","dedicated":"attacker"},"taints":[{"key":"attacker","effect":"NoExecute"}]}`},
	}
}

func TestAClientThatMayWriteConfigMapsElsewhereCannotLabelANodeOrChangeARecord(t *testing.T) {
	const namespace, known, unknown = "attack-tenant", "attack-tenant-known", "attack-tenant-unknown"
	attacker := tenant(t, namespace)
	node := remembered(t, known, map[string]string{"dedicated": "ci"})
	before, found := recordOf(t, known)
	require.True(t, found)

	for _, name := range []string{known, unknown} {
		_, err := attacker.CoreV1().ConfigMaps(namespace).Create(t.Context(), forgedRecord(namespace, name), metav1.CreateOptions{})
		require.NoError(t, err, "the attacker may write ConfigMaps in the own namespace")
		_, err = attacker.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), forgedRecord(harness.Namespace, name), metav1.CreateOptions{})
		assert.True(t, apierrors.IsForbidden(err), "the release namespace is not the attacker's: %v", err)
	}
	// The policy file and the TLS Secret cannot be replaced from another namespace either, because the processes read them as mounted files and from
	// the release namespace only. A label that arrives by the watch after the forged records shows that they had time to arrive.
	label(t, known, map[string]string{"rack": "r1"})
	after := remembers(t, node, map[string]string{"dedicated": "ci", "rack": "r1"})
	assert.Equal(t, before.Newest().UID, after.Newest().UID)

	deleteNode(t, known)
	again := register(t, known)
	assert.Equal(t, "ci", again.Labels["dedicated"])
	for _, got := range []*corev1.Node{again, register(t, unknown)} {
		assert.NotContains(t, got.Labels, worker)
		assert.NotEqual(t, "attacker", got.Labels["dedicated"])
		assert.False(t, carriesTaint(got, corev1.Taint{Key: "attacker", Effect: corev1.TaintEffectNoExecute}))
		assert.False(t, gated(got))
	}
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), store.Name(unknown), metav1.GetOptions{})
	require.NoError(t, err, "what is not in the release namespace is not touched")
}
