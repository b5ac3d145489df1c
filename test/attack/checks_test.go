package attack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// RBAC gives some tenants all rights on Pods and ConfigMaps of every namespace. What checks of Nodes find is decided by Pods.
func TestATenantWithPodsInAllNamespacesChangesNothingThatDecidesAboutANode(t *testing.T) {
	prepared(t)
	config := configOf(t, granted(t, "tenant", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "pods", "pods/attach", "pods/ephemeralcontainers", "pods/exec", "pods/status"}, Verbs: []string{"*"}}))
	const check, denied = checks + "/pods/check", "nodekeep-checks"
	strategic := func(path string, body any) request {
		r := patch(path, body)
		r.kind = "application/strategic-merge-patch+json"
		return r
	}
	kubelet := func(r request) request { return requestsAs(busy, []string{"system:nodes"}, r)[0] }
	passed := object{"status": object{"phase": "Succeeded", "containerStatuses": []object{{"name": "a", "image": "a", "imageID": "", "state": object{"terminated": object{"exitCode": 0, "message": "forged"}}}}}}
	forging := post(checks+"/pods", pod(verify.Namespace, "check-forged"))
	require.Eventually(t, func() bool {
		outcome, err := forging.run(t.Context(), config)
		return err == nil && outcome == denied
	}, harness.Settles, 50*time.Millisecond, "the API server must go by the policy")
	for title, test := range map[string]struct {
		request request
		want    string
	}{
		"a worker Pod of its own":                   {forging, denied},
		"another image in a worker Pod":             {strategic(check, object{"spec": object{"containers": []object{{"name": "a", "image": "forged"}}}}), denied},
		"a shorter deadline of a worker Pod":        {patch(check, object{"spec": object{"activeDeadlineSeconds": 1}}), denied},
		"another owner of a worker Pod":             {patch(check, object{"metadata": object{"ownerReferences": []object{{"apiVersion": "v1", "kind": "Node", "name": busy, "uid": "a"}}}}), denied},
		"a finalizer, so that a worker Pod stays":   {patch(check, object{"metadata": object{"finalizers": []string{"a.example.com/stay"}}}), denied},
		"the report of a worker Pod":                {strategic(check+"/status", passed), denied},
		"a container that is added to a worker Pod": {strategic(check+"/ephemeralcontainers", object{"spec": object{"ephemeralContainers": []object{withField(restricted(), "name", "b")}}}), denied},
		"a command in a worker Pod":                 {post(check+"/exec?command=sh&stdin=true&container=a", nil), denied},
		"a terminal in a worker Pod":                {post(check+"/attach?container=a", nil), denied},
		"a report of a Node that failed":            {post(checks+"/configmaps", named("v1", "ConfigMap", "check.worker-1")), denied},
		"an empty ledger of removals":               {patch(checks+"/configmaps/nodekeep-verify", object{"data": object{"removals": "{}"}}), denied},
		"a Pod of another account, which decides nothing": {post(checks+"/pods", withField(pod(verify.Namespace, "other"), "spec", func() any {
			spec := pod(verify.Namespace, "other")["spec"].(object)
			delete(spec, "nodeName")
			return withField(spec, "serviceAccountName", "default")
		}())), yes},
		"the deletion of a worker Pod, after which the Node is checked again": {remove(check)[0], yes},
		"a label of a worker Pod": {patch(check, object{"metadata": object{"labels": object{"a": "b"}}}), yes},
		"a worker Pod elsewhere":  {post(core+"/namespaces/default/pods", plain("default", "check-a")), yes},
	} {
		if test.request.path == check+"/exec?command=sh&stdin=true&container=a" || test.request.path == check+"/attach?container=a" {
			test.request.stored = true // these take no dry run
		}
		outcome, err := test.request.run(t.Context(), config)
		require.NoError(t, err, title)
		assert.Equal(t, test.want, outcome, title)
	}
	collector := patch(check, object{"metadata": object{"ownerReferences": []object{{"apiVersion": "v1", "kind": "Node", "name": busy, "uid": "a"}}}})
	collector.user, collector.groups = "system:serviceaccount:kube-system:generic-garbage-collector", []string{"system:serviceaccounts:kube-system", "system:masters"}
	outcome, err := collector.run(t.Context(), nodekeep.Cluster.Admin())
	require.NoError(t, err)
	assert.Equal(t, yes, outcome, "a Node that is deleted with --cascade=orphan waits for no Pod")
	outcome, err = kubelet(strategic(check+"/status", passed)).run(t.Context(), nodekeep.Cluster.Admin())
	require.NoError(t, err)
	assert.Equal(t, yes, outcome, "the kubelet of its Node reports")
}

// granted creates a ServiceAccount with these rights in the whole cluster.
func granted(t *testing.T, name string, rules ...rbacv1.PolicyRule) account {
	t.Helper()
	item, meta := account{"", "default", name}, metav1.ObjectMeta{Name: name}
	_, err := nodekeep.Admin.CoreV1().ServiceAccounts(item.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = nodekeep.Admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = nodekeep.Admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: item.namespace, Name: name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return item
}
