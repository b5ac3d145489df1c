package verification

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// workload returns a Pod that only the Nodes of the profile can take.
func workload(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{selected: "checked"}, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
}

func TestNoWorkloadIsBoundBeforeTheNodeWasVerifiedAndDaemonSetsRun(t *testing.T) {
	warm(t)
	labels := map[string]string{"app": "agent"}
	agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "default"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, NodeSelector: map[string]string{selected: "checked"},
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		}},
	}}
	_, err := nodekeep.Admin.AppsV1().DaemonSets("default").Create(t.Context(), agent, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { nodekeepKubectl("delete", "daemonset", "agent", "--ignore-not-found") })
	pods := nodekeep.Admin.CoreV1().Pods("default")
	_, err = pods.Create(t.Context(), workload("early"), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { nodekeepKubectl("delete", "pod", "early", "--grace-period=0", "--force", "--ignore-not-found") })

	k := register(t, "bound", nil)
	require.True(t, held(nodekeep.Node(t, "bound")), "the taint is there from the CREATE")
	require.Eventually(t, func() bool { // the agent is bound, the worker Pod waits for its kubelet
		agents, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app=agent"})
		workers, werr := nodekeep.Admin.CoreV1().Pods(verify.Namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && werr == nil && len(agents.Items) == 1 && agents.Items[0].Spec.NodeName == "bound" && len(workers.Items) == 1
	}, settles, 50*time.Millisecond)
	early, err := pods.Get(t.Context(), "early", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, early.Spec.NodeName, "a workload was bound to a Node that was not verified")

	k.reportWith(honest)
	node := waitOpen(t, "bound", 1)
	assert.Empty(t, progress(node).Last.Skipped)
	require.Eventually(t, func() bool {
		early, err := pods.Get(t.Context(), "early", metav1.GetOptions{})
		return err == nil && early.Spec.NodeName == "bound"
	}, settles, 50*time.Millisecond, "then the workload is bound")
	waitFor(t, "bound", "shown as verified", func(node *corev1.Node) bool { return verify.NodeOf(node).Verified.Status == corev1.ConditionTrue })
	nodekeep.WaitEvent(t, "bound", "Verified")
}

func nodekeepKubectl(args ...string) { _, _ = nodekeep.Kubectl(background(), args...) }

func TestHostileReportsKeepTheirNodeTaintedUntilItsKubeletIsHonest(t *testing.T) {
	warm(t)
	passed := func(asked []verify.Check) string { return harness.WorkerReport(asked, verify.Passed, "") }
	hostile := map[string]func([]verify.Check) (string, int32){
		"garbage": func([]verify.Check) (string, int32) { return "garbage", 0 },
		"empty":   func([]verify.Check) (string, int32) { return "", 0 },
		"large":   func([]verify.Check) (string, int32) { return strings.Repeat(`{"results":[`, 100_000), 0 },
		"nothing": func([]verify.Check) (string, int32) { return `{"results":[]}`, 0 },
		"skipped": func(asked []verify.Check) (string, int32) {
			return harness.WorkerReport(asked, verify.Skipped, verify.ReasonColdStart), 0
		},
		"others": func(asked []verify.Check) (string, int32) {
			return strings.ReplaceAll(passed(asked), `"dns"`, `"sns"`), 0
		},
		"half":     func(asked []verify.Check) (string, int32) { return passed(asked[:1]), 0 },
		"exitcode": func(asked []verify.Check) (string, int32) { return passed(asked), 2 },
		"optional": func(asked []verify.Check) (string, int32) {
			return strings.ReplaceAll(passed(asked), `:true`, `:false`), 0
		},
		"escapes": func([]verify.Check) (string, int32) {
			return "\x1b[31m{\"results\":[{\"check\":\"dns\",\"outcome\":\"failed\"}]}", 1
		},
	}
	kubelets := map[string]*kubelet{}
	for name, report := range hostile {
		kubelets[name] = register(t, "hostile-"+name, report)
	}
	for name := range hostile {
		node := waitFor(t, "hostile-"+name, "tried twice", func(node *corev1.Node) bool { return progress(node).Attempts >= 2 })
		assert.True(t, held(node), name)
		assert.Equal(t, verify.VerdictInconclusive, progress(node).Last.Result, name)
		assert.NotContains(t, node.Annotations[verify.Annotation], "\x1b")
		kubelets[name].reportWith(honest)
	}
	for name := range hostile {
		waitOpen(t, "hostile-"+name, 1)
	}
	assert.Zero(t, harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_controller_errors_total{controller="verify",kind="panic"}`))
}

func TestAFailedCheckIsReportedAlsoAfterTheNodeIsDeletedAndTheNodeIsVerifiedWhenItRegistersAgain(t *testing.T) {
	warm(t)
	register(t, "broken", failing)
	node := waitFor(t, "broken", "stuck", func(node *corev1.Node) bool { return progress(node).Attempts >= 2 })
	assert.True(t, held(node))
	assert.Equal(t, "Timeout", progress(node).Last.Reason)
	nodekeep.WaitEvent(t, "broken", "VerificationStuck")
	nodekeep.DeleteNode(t, "broken")
	kept, err := nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Get(t.Context(), verify.ReportName("broken"), metav1.GetOptions{})
	require.NoError(t, err)
	report, err := verify.ParseSavedReport(kept.Data[verify.ReportKey])
	require.NoError(t, err)
	assert.Equal(t, string(node.UID), report.UID)
	assert.Equal(t, verify.VerdictFailed, report.Result)
	harness.Eventually(t, func() bool { return len(workers(t, "broken")) == 0 }, settles, 50*time.Millisecond, "its worker Pods go with it")

	reread := register(t, "broken", honest)
	assert.True(t, held(nodekeep.Node(t, reread.name)))
	waitOpen(t, "broken", 1)
}

func TestAStuckNodeIsCheckedAtOnceWhenAnOperatorAsks(t *testing.T) {
	warm(t)
	k := registerWith(t, "patient", map[string]string{selected: "patient"}, failing)
	waitFor(t, "patient", "stuck, with no worker Pod", func(node *corev1.Node) bool { return progress(node).Attempts >= 2 && len(workers(t, "patient")) == 0 })
	k.reportWith(honest)
	a := nodekeep.Command(t, "", "", "recheck", "patient", "--yes")
	assert.Zero(t, a.Code, a.ErrOut)
	assert.Equal(t, "node/patient: attempts begin anew; the controller starts an attempt now\n", a.Out)
	waitOpen(t, "patient", 1) // its next attempt was due in ten minutes
	generation := nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath={.metadata.generation}")
	assert.Contains(t, nodekeep.Command(t, "", "", "show", "patient", "--verification").Out, "profile patient as of generation "+generation+" of the policy")
}

func TestTheTaintAddedAgainMeansVerifiedAgain(t *testing.T) {
	warm(t)
	k := register(t, "again", honest)
	waitOpen(t, "again", 1)
	k.reportWith(nil)
	nodekeep.MustKubectl(t, "taint", "node", "again", verify.Taint+"=by-hand:NoSchedule")
	waitFor(t, "again", "checked anew", func(node *corev1.Node) bool { return len(workers(t, "again")) == 1 && held(node) })
	k.reportWith(honest)
	waitOpen(t, "again", 2)
}

// putBack has the API server put the taint back on a Node in each write that would remove it, as a mutating admission policy of another component may.
func putBack(t *testing.T, name string) (end func()) {
	t.Helper()
	admission, ctx := nodekeep.Admin.AdmissionregistrationV1(), background()
	nodes := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
	}
	_, err := admission.MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "put-back"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: nodes}}},
			MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "node", Expression: fmt.Sprintf("object.metadata.name == %q && has(oldObject.spec.taints)", name)}},
			Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{
				// In two steps: the API server (1.36) panics where the value is a list of typed objects.
				Expression: fmt.Sprintf(`[JSONPatch{op: "add", path: "/spec/taints", value: []}, JSONPatch{op: "add", path: "/spec/taints/-", value: Object.spec.taints{key: %q, effect: "NoSchedule"}}]`, verify.Taint),
			}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admission.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "put-back"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "put-back"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	end = sync.OnceFunc(func() {
		require.NoError(t, admission.MutatingAdmissionPolicyBindings().Delete(ctx, "put-back", metav1.DeleteOptions{}))
		require.NoError(t, admission.MutatingAdmissionPolicies().Delete(ctx, "put-back", metav1.DeleteOptions{}))
	})
	t.Cleanup(end)
	return end
}

func TestATaintThatAnAdmissionPolicyPutsBackInTheVeryPatchIsRemovedAfterGrowingPauses(t *testing.T) {
	warm(t)
	k := register(t, "undone", nil)
	end := putBack(t, "undone")
	var dry *corev1.Node
	var err error
	require.Eventually(t, func() bool { // the policy is in force
		dry, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), "undone", types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && held(dry)
	}, settles, 50*time.Millisecond, "%v, %v", &err, &dry)
	k.reportWith(honest)
	node := waitFor(t, "undone", "put back more often than is free", func(node *corev1.Node) bool { return progress(node).Returns > verify.FreeReturns })
	assert.True(t, held(node))
	assert.NotEqual(t, verify.VerdictFailed, progress(node).Last.Result)
	nodekeep.WaitEvent(t, "undone", "VerificationUndone")
	profiles, err := policy.Load([]byte(verifying), policy.DefaultGate)
	require.NoError(t, err)
	seen := verify.NodeOf(node)
	paused := verify.Plan(verify.Observed{Node: &seen}, profiles.Verify(), verify.Cluster{}, progress(node).Last.Time.Add(time.Second))
	assert.Contains(t, paused.Diagnosis.String(), "another client adds the taint again", "what list --waiting verification says")
	end()
	waitFor(t, "undone", "open by itself once the policy is deleted", func(node *corev1.Node) bool { return !held(node) })
}

func TestAKubeletCannotOpenItsNodeByTheLabelThatSaysVerified(t *testing.T) {
	warm(t)
	k := register(t, "forger", nil)
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, verify.Label)
	_, err := k.client.CoreV1().Nodes().Patch(t.Context(), "forger", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err, "a kubelet may set this label on its own Node")
	waitFor(t, "forger", "checked", func(*corev1.Node) bool { return len(workers(t, "forger")) == 1 })
	assert.True(t, held(nodekeep.Node(t, "forger")))
}

func TestTwoLeadersAtOnceAndProcessesThatAreKilledDecideEveryNode(t *testing.T) {
	warm(t)
	second := nodekeep.StartReplica(t, "verify", "--image", "nodekeep:test", "--leader-elect=false").UntilReady(t)
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("many-%d", i))
		report := honest
		if i%4 == 3 {
			report = failing
		}
		register(t, names[i], report)
	}
	for range 3 { // while they are being verified
		require.NoError(t, nodekeep.KillVerify())
		require.NoError(t, nodekeep.StartVerify(background(), "--leader-elect=false"))
	}
	for i, name := range names {
		if i%4 == 3 {
			node := waitFor(t, name, "tried", func(node *corev1.Node) bool { return progress(node).Attempts >= 2 })
			assert.True(t, held(node))
			continue
		}
		waitOpen(t, name, 1)
	}
	require.NoError(t, second.Process.Stop())
	require.NoError(t, nodekeep.StopVerify())
	require.NoError(t, nodekeep.StartVerify(background()))
}

// denied denies writes of a Node to the controller, as an admission policy of another team may.
const denied = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: frozen}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [nodes]}]
  matchConditions:
  - {name: node, expression: object.metadata.name == "frozen" && request.userInfo.username.endsWith(":nodekeep-verify")}
  validations: [{expression: "false", message: "a change freeze is on"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: frozen}
spec: {policyName: frozen, validationActions: [Deny]}
`

func TestANodeWhoseChangeIsDeniedSaysSoInTheConditionInAnEventAndInTheList(t *testing.T) {
	warm(t)
	file := filepath.Join(t.TempDir(), "frozen.yaml")
	require.NoError(t, os.WriteFile(file, []byte(denied), 0o600))
	k := register(t, "frozen", nil)
	thaw := sync.OnceFunc(func() { nodekeepKubectl("delete", "--ignore-not-found", "-f", file) })
	t.Cleanup(thaw)
	nodekeep.MustKubectl(t, "apply", "-f", file)
	waitFor(t, "frozen", "checked", func(*corev1.Node) bool { return len(workers(t, "frozen")) == 1 })
	harness.Eventually(t, func() bool { // the policy is in force
		_, err := nodekeep.ClientFor(t, "nodekeep-verify").CoreV1().Nodes().Patch(t.Context(), "frozen", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"nodekeep.dev/check":"{}"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "change freeze")
	}, settles, 50*time.Millisecond)
	k.reportWith(honest)
	var text string
	waitFor(t, "frozen", "shown as refused", func(node *corev1.Node) bool {
		for _, condition := range node.Status.Conditions {
			if condition.Type == verify.Condition && condition.Reason == string(verify.CauseRefused) {
				text = condition.Message
			}
		}
		return text != ""
	})
	assert.Contains(t, text, "the controller cannot go on: patch node")
	assert.Contains(t, text, "a change freeze is on; correct what the message names")
	nodekeep.WaitEvent(t, "frozen", "VerificationWaits")
	for _, args := range [][]string{{"list", "--waiting", "verification"}, {"show", "frozen", "--verification"}} {
		assert.Contains(t, nodekeep.Command(t, "", "", args...).Out, text, "%s", args)
	}
	thaw()
	waitOpen(t, "frozen", 1)
}
