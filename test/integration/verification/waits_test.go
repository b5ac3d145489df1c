package verification

import (
	"fmt"
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

// mayLookInto grants what the chart grants where a profile waits for NAMESPACE/*.
func mayLookInto(t *testing.T, namespace string) {
	t.Helper()
	rights := nodekeep.Admin.RbacV1()
	name := metav1.ObjectMeta{Name: "nodekeep-verify-lookup", Namespace: namespace}
	_, err := rights.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"list"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rights.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "nodekeep-verify", Namespace: "nodekeep-system"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func TestANodeWaitsForEachDaemonSetOfANamespaceThatHasAPodOnIt(t *testing.T) {
	warm(t)
	const namespace = "agents"
	_, err := nodekeep.Admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { nodekeepKubectl("delete", "namespace", namespace, "--wait=false") })
	create := func(name string, pod corev1.PodSpec) {
		labels := map[string]string{"app": name}
		pod.Containers = []corev1.Container{{Name: "c", Image: "none"}}
		_, err := nodekeep.Admin.AppsV1().DaemonSets(namespace).Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	here, all := map[string]string{selected: "agents"}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	create("cni", corev1.PodSpec{NodeSelector: here, Tolerations: all})
	create("csi", corev1.PodSpec{NodeSelector: here, Tolerations: all})
	create("app", corev1.PodSpec{NodeSelector: here}) // it does not tolerate the taint, so it cannot be waited for
	create("gpu", corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}, Tolerations: all})

	failures := func() float64 {
		return harness.Series(t, nodekeep.MetricsURL("verify"), "nodekeep_verify_failures_total")
	}
	before := failures()
	k := registerWith(t, "every-agent", here, honest)
	require.Eventually(t, func() bool { return failures() > before }, settles, 50*time.Millisecond, "no right was granted, and the Node waits")
	mayLookInto(t, namespace)

	ready := func(app string) {
		pods := nodekeep.Admin.CoreV1().Pods(namespace)
		require.Eventually(t, func() bool {
			list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app, FieldSelector: "spec.nodeName=" + k.name})
			if err != nil || len(list.Items) != 1 {
				return false
			}
			_, err = k.client.CoreV1().Pods(namespace).Patch(t.Context(), list.Items[0].Name, types.StrategicMergePatchType,
				[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
			return err == nil
		}, settles, 50*time.Millisecond, "the Pod of %s", app)
	}
	ready("cni")
	require.Eventually(t, func() bool { // the commands decide it as the controller does
		shown := nodekeep.Command(t, "", "", "verify", "show", k.name)
		return strings.Contains(shown.Out, "no Pod of DaemonSet agents/csi is Ready on the Node")
	}, settles, time.Second)
	assert.True(t, held(nodekeep.Node(t, k.name)))
	ready("csi")
	waitOpen(t, k.name, 1)
	assert.Empty(t, workers(t, k.name))
}
