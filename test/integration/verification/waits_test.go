package verification

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

func TestANodeOfAProfileThatOnlyWaitsOpensWithoutAWorkerPodOnceItsConditionHolds(t *testing.T) {
	warm(t)
	k := registerWith(t, "only-waits", map[string]string{selected: "waits"}, honest)
	report := func(status string) {
		now := metav1.Now().UTC().Format(time.RFC3339)
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"example.com/Warm","status":%q,"reason":"Agent","message":"","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, status, now, now)
		_, err := k.client.CoreV1().Nodes().Patch(t.Context(), k.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	waitFor(t, k.name, "Ready and closed", func(node *corev1.Node) bool { return held(node) && verify.NodeOf(node).Ready })
	report("False")
	workload := registerWith(t, "only-waits-2", map[string]string{selected: "waits"}, honest) // the controller has worked on others since
	waitFor(t, workload.name, "Ready and closed", func(node *corev1.Node) bool { return held(node) && verify.NodeOf(node).Ready })
	assert.True(t, held(nodekeep.Node(t, k.name)), "the condition is False")

	report("True")
	node := waitOpen(t, k.name, 1)
	assert.Equal(t, verify.VerdictPassed, progress(node).Last.Result)
	assert.Empty(t, workers(t, k.name))
	assert.True(t, held(nodekeep.Node(t, workload.name)), "a Node without the condition waits")
	nodekeep.WaitEvent(t, k.name, "Verified")
}

// lookups returns what the chart grants where a profile waits for each DaemonSet: in a namespace, or in all.
func lookups() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"list"}},
	}
}

const lookupRole = "nodekeep-verify-lookup"

func verifyAccount() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: "ServiceAccount", Name: "nodekeep-verify", Namespace: "nodekeep-system"}}
}

// mayLookInto grants what the chart grants where a profile waits for NAMESPACE/*.
func mayLookInto(t *testing.T, namespace string) {
	t.Helper()
	rights, name := nodekeep.Admin.RbacV1(), metav1.ObjectMeta{Name: lookupRole}
	_, err := rights.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: lookups()}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rights.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: lookupRole}, Subjects: verifyAccount(),
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// mayLookIntoAll grants what the chart grants where a profile waits for auto.
func mayLookIntoAll(t *testing.T) {
	t.Helper()
	rights, name := nodekeep.Admin.RbacV1(), metav1.ObjectMeta{Name: lookupRole}
	_, err := rights.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: lookups()}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { nodekeepKubectl("delete", "clusterrole,clusterrolebinding", lookupRole, "--ignore-not-found") })
	_, err = rights.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: lookupRole}, Subjects: verifyAccount(),
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// agents are DaemonSets of a namespace of their own, which is deleted with the test.
type agents string

func newAgents(t *testing.T, namespace string) agents {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		nodekeepKubectl("-n", namespace, "delete", "daemonsets", "--all", "--wait=false")
		nodekeepKubectl("delete", "namespace", namespace, "--wait=false")
	})
	return agents(namespace)
}

func (a agents) create(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	labels := map[string]string{"app": name}
	pod.Containers = []corev1.Container{{Name: "c", Image: "none"}}
	_, err := nodekeep.Admin.AppsV1().DaemonSets(string(a)).Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// ready has the kubelet report that its Pod of a DaemonSet is Ready.
func (a agents) ready(t *testing.T, k *kubelet, app string) {
	t.Helper()
	pods := nodekeep.Admin.CoreV1().Pods(string(a))
	require.Eventually(t, func() bool {
		list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app, FieldSelector: "spec.nodeName=" + k.name})
		if err != nil || len(list.Items) != 1 {
			return false
		}
		_, err = k.client.CoreV1().Pods(string(a)).Patch(t.Context(), list.Items[0].Name, types.StrategicMergePatchType,
			[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
		return err == nil
	}, settles, 50*time.Millisecond, "the Pod of %s", app)
}

// showsWhy waits until the command says that a Node waits for a DaemonSet. It decides that as the controller does.
func showsWhy(t *testing.T, node, daemonSet string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		shown := nodekeep.Command(t, "", "", "show", node, "--verification")
		return strings.Contains(shown.Out, "no Pod of DaemonSet "+daemonSet+" is Ready on the Node")
	}, settles, time.Second)
}

func verifyFailures(t *testing.T) float64 {
	t.Helper()
	return harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_controller_errors_total{controller="verify",kind="failure"}`)
}

func TestANodeWaitsForEachDaemonSetOfANamespaceThatHasAPodOnIt(t *testing.T) {
	warm(t)
	in := newAgents(t, "agents")
	local, all := map[string]string{selected: "agents"}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	in.create(t, "cni", corev1.PodSpec{NodeSelector: local, Tolerations: all})
	in.create(t, "csi", corev1.PodSpec{NodeSelector: local, Tolerations: all})
	in.create(t, "app", corev1.PodSpec{NodeSelector: local}) // it does not tolerate the taint, so it cannot be waited for
	in.create(t, "gpu", corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}, Tolerations: all})

	prev := verifyFailures(t)
	k := registerWith(t, "every-agent", local, honest)
	harness.Eventually(t, func() bool { return verifyFailures(t) > prev }, settles, 50*time.Millisecond, "no right was granted, and the Node waits")
	mayLookInto(t, "agents")

	in.ready(t, k, "cni")
	showsWhy(t, k.name, "agents/csi")
	assert.True(t, held(nodekeep.Node(t, k.name)))
	in.ready(t, k, "csi")
	waitOpen(t, k.name, 1)
	assert.Empty(t, workers(t, k.name))
}

func TestANodeWaitsForEachDaemonSetOfAllNamespacesThatHasAPodOnIt(t *testing.T) {
	warm(t)
	network, storage := newAgents(t, "all-network"), newAgents(t, "all-storage")
	local, all := map[string]string{selected: "all-agents"}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	network.create(t, "agent", corev1.PodSpec{NodeSelector: local, Tolerations: all})
	storage.create(t, "agent", corev1.PodSpec{NodeSelector: local, Tolerations: all})
	storage.create(t, "app", corev1.PodSpec{NodeSelector: local}) // it does not tolerate the taint, so it cannot be waited for
	storage.create(t, "gpu", corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}, Tolerations: all})

	k := registerWith(t, "all-agents", local, honest)
	waitFor(t, k.name, "the condition names the missing right", func(node *corev1.Node) bool {
		return held(node) && slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == verify.Condition && condition.Reason == string(verify.CauseRefused) && strings.Contains(condition.Message, "cannot list resource")
		})
	})
	mayLookIntoAll(t)

	network.ready(t, k, "agent")
	showsWhy(t, k.name, "all-storage/agent")
	assert.True(t, held(nodekeep.Node(t, k.name)))
	storage.ready(t, k, "agent")
	waitOpen(t, k.name, 1)
	assert.Empty(t, workers(t, k.name))
}
