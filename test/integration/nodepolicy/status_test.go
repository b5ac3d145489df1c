package nodepolicy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// pod returns a Pod of nodekeep that runs, as far as the API server knows, until the test ends.
func pod(t *testing.T, name, component string) (remove func()) {
	t.Helper()
	pods := nodekeep.Admin.CoreV1().Pods(harness.Namespace)
	created, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "nodekeep", "app.kubernetes.io/component": component}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "nodekeep-" + component, AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "a", Image: "a"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	created.Status.Phase = corev1.PodRunning
	created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = pods.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
	remove = func() {
		_ = pods.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	t.Cleanup(remove)
	return remove
}

// processesRun has the API server know the processes that run as Pods.
func processesRun(t *testing.T) {
	t.Helper()
	for _, component := range []string{"webhook", "capture", "verify"} {
		pod(t, "nodekeep-"+component, component)
	}
}

// says waits until a field of the NodePolicy, in jsonpath, contains a text.
func says(t *testing.T, field, text string) {
	t.Helper()
	var value string
	harness.Eventually(t, func() bool {
		value = nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath="+field)
		return strings.Contains(value, text)
	}, harness.Settles, poll, "%s must come to say %s; it says %s", field, text, &value)
}

// condition returns the path of a condition's field.
func condition(kind, field string) string {
	return `{.status.conditions[?(@.type=="` + kind + `")].` + field + `}`
}

// waits has kubectl wait for a condition of this generation.
func waits(t *testing.T, value string) {
	t.Helper()
	out, err := nodekeep.Kubectl(t.Context(), "wait", "--timeout", harness.Settles.String(), "--for=condition="+value, "nodepolicy/default")
	require.NoError(t, err, out)
}

func TestTheStatusSaysWhetherEveryReplicaFollowsThePolicy(t *testing.T) {
	processesRun(t)
	withSections(t, "cordon: keep")
	generation := nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath={.metadata.generation}")
	says(t, condition("InForce", "observedGeneration"), generation)
	waits(t, "Accepted")
	waits(t, "InForce")

	behind := pod(t, "nodekeep-webhook-behind", "webhook")
	waits(t, "InForce=false")
	says(t, condition("InForce", "message"), "1 of 4 replicas do not follow this generation: nodekeep-webhook-behind.")
	behind()
	waits(t, "InForce")
	assert.Equal(t, generation, nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath={.metadata.generation}"), "a status is no new generation")

	out := nodekeep.MustKubectl(t, "get", "nodepolicies")
	assert.Regexp(t, `^NAME +ACCEPTED +HELD +NODES +AGE\ndefault +True +[0-9]+ +`, out)
}

func TestCommandsNameTheProcessThatHasNotReadThePolicyUntilItHas(t *testing.T) {
	processesRun(t)
	withSections(t, "cordon: keep")
	waits(t, "InForce")
	out := func() (sentence string) {
		for line := range strings.Lines(nodekeep.Command(t, "", "", "list", "--waiting", "verification").ErrOut) {
			if strings.HasPrefix(line, "Not read yet") {
				sentence += strings.TrimSuffix(line, "\n")
			}
		}
		return sentence
	}
	assert.Empty(t, out())

	require.NoError(t, nodekeep.StopVerify())
	running := false
	t.Cleanup(func() {
		if !running {
			_ = nodekeep.StartVerify(context.WithoutCancel(t.Context()))
		}
	})
	withSections(t, "cordon: ignore")
	generation := nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath={.metadata.generation}")
	sentence := "Not read yet by nodekeep-verify: the policy's generation " + generation + "."
	require.Eventually(t, func() bool { return out() == sentence }, harness.Settles, poll, "the other processes read it")
	for _, command := range [][]string{{"list"}, {"list", "--waiting", "gate"}, {"explain", "behind-1"}, {"show", "behind-1", "--diff"}, {"show", "behind-1", "--verification"}} {
		assert.Contains(t, nodekeep.Command(t, "", "", command...).ErrOut, sentence, command)
	}
	assert.Contains(t, nodekeep.Command(t, "", "", "doctor").Out, "it is not in force everywhere: "+sentence)

	// Any client that may write the status can write anything there.
	nodekeep.MustKubectl(t, "patch", "nodepolicy", "default", "--subresource=status", "--type=merge", "-p",
		`{"status": {"readBy": {"nodekeep-verify": 9223372036854775807, "invented": 1, "../x": 3}}}`)
	assert.Equal(t, sentence, out())

	require.NoError(t, nodekeep.StartVerify(context.WithoutCancel(t.Context())))
	running = true
	require.Eventually(t, func() bool { return out() == "" }, harness.Settles, poll)
	assert.NotContains(t, nodekeep.Command(t, "", "", "doctor").Out, "it is not in force everywhere")
}

func TestTheStatusNamesWhatNodekeepCannotUse(t *testing.T) {
	processesRun(t)
	withSections(t, accepted)
	nodekeep.ForcePolicy(t, policytest.Manifest(unusable))
	waits(t, "Accepted=false")
	says(t, condition("Accepted", "message"), "spec.labels.keep[0]")
	waits(t, "InForce=false")
}

func TestRulesThatWaitAreShownAndAcceptedByThePolicyItself(t *testing.T) {
	rule := func(tier, accept string) string {
		sections := "labels: {rules: [{name: a, when: {names: [\"accepted-*\"]}, set: {tier: " + tier + "}}]}"
		if accept != "" {
			sections += "\naccept: \"" + accept + "\""
		}
		return sections
	}
	processesRun(t)
	withSections(t, rule("one", ""))
	names := []string{"accepted-1", "accepted-2", "accepted-3"}
	current := func(tier string) {
		t.Helper()
		for _, name := range names {
			harness.Eventually(t, func() bool { return nodekeep.Node(t, name).Labels["tier"] == tier }, harness.Settles, poll, "%s must come to have tier %s", name, tier)
		}
	}
	for _, name := range names {
		nodekeep.Register(t, name)
	}
	current("one")
	waits(t, "Held=false")

	next, err := policy.Load([]byte(policytest.Manifest(rule("two", ""))), policy.DefaultGate)
	require.NoError(t, err)
	nodekeep.SetPolicy(t, policytest.Manifest(rule("two", "")))
	waits(t, "Held")
	says(t, "{.status.held.rules}", next.RulesHash())
	says(t, "{.status.held.nodes}", "3")
	says(t, condition("Held", "message"), "spec.accept: "+next.RulesHash())
	current("one")

	out := nodekeep.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "-f", written(t, policytest.Manifest(rule("two", "0123456789ab"))))
	assert.Contains(t, out, "accept is 0123456789ab, and accepts nothing: the rules and migrations have the hash "+next.RulesHash())
	current("one")

	nodekeep.SetPolicy(t, policytest.Manifest(rule("two", next.RulesHash())))
	current("two")
	waits(t, "Held=false")
	assert.Empty(t, nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath={.status.held}"))
}

func TestTheStatusSaysWhetherTheAPIServerGoesByGovernance(t *testing.T) {
	processesRun(t)
	withSections(t, "cordon: keep")
	says(t, condition("GovernanceEnforced", "reason"), "NothingGoverned")
	nodekeep.SetPolicy(t, policytest.Manifest("governance: {keys: [{key: tier, values: [gold], mode: deny}]}"))
	waits(t, "GovernanceEnforced")

	bindings := nodekeep.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	binding, err := bindings.Get(t.Context(), governance.DenyPolicy, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, bindings.Delete(t.Context(), binding.Name, metav1.DeleteOptions{}))
	binding.UID, binding.ResourceVersion = "", ""
	restore := func() {
		_, _ = bindings.Create(context.WithoutCancel(t.Context()), binding, metav1.CreateOptions{})
	}
	defer restore()
	waits(t, "GovernanceEnforced=false")
	says(t, condition("GovernanceEnforced", "message"), "validatingadmissionpolicybinding/nodekeep-governance-deny does not exist")
	restore()
	waits(t, "GovernanceEnforced")
}

func TestAStatusThatAnotherClientWritesChangesNoNodeAndIsCorrected(t *testing.T) {
	const name = "hostile-status"
	processesRun(t)
	withSections(t, accepted)
	waits(t, "InForce")
	node := nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]string{"lane": "a"})
	comesToCarry(t, name, unchecked, "lane=a:NoSchedule")
	nodekeep.WaitRecordedAtLeast(t, node, map[string]string{"lane": "a"})
	head := nodekeep.Node(t, name).ResourceVersion

	readBy := map[string]any{"nodekeep-webhook": 99}
	for i := range 900 {
		readBy[fmt.Sprintf("invented-%d", i)] = i
	}
	lie := func(kind string) map[string]any {
		return map[string]any{"type": kind, "status": "False", "reason": "Invented", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}
	}
	patch := string(harness.MustJSON(t, map[string]any{"status": map[string]any{
		"readBy": readBy, "conditions": []any{lie("Accepted"), lie("Invented")}, "held": map[string]any{"rules": "0123456789ab", "nodes": 1}, "observedGeneration": 999,
	}}))
	nodekeep.MustKubectl(t, "patch", "nodepolicy", "default", "--subresource=status", "--type=merge", "-p", patch)
	says(t, "{.status.observedGeneration}", nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath={.metadata.generation}"))
	waits(t, "Accepted")
	waits(t, "InForce")
	status := nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "jsonpath={.status}")
	assert.NotContains(t, strings.ToLower(status), "invented")
	assert.NotContains(t, status, "0123456789ab", "rules that are held by its word")
	assert.Equal(t, head, nodekeep.Node(t, name).ResourceVersion)
}

func TestAnAdmissionPolicyThatDeniesTheStatusKeepsNoPolicyFromActing(t *testing.T) {
	processesRun(t)
	withSections(t, "cordon: keep")
	waits(t, "InForce")
	const deny = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny-the-status}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [nodekeep.dev], apiVersions: ["*"], operations: [UPDATE], resources: [nodepolicies/status]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny-the-status}
spec: {policyName: deny-the-status, validationActions: [Deny]}
`
	file := written(t, deny)
	nodekeep.MustKubectl(t, "apply", "-f", file)
	allow := func() {
		_, _ = nodekeep.Kubectl(context.WithoutCancel(t.Context()), "delete", "--ignore-not-found", "-f", file)
	}
	defer allow()
	require.Eventually(t, func() bool {
		_, err := nodekeep.Kubectl(t.Context(), "patch", "nodepolicy", "default", "--subresource=status", "--type=merge", "--dry-run=server", "-p", `{"status":{"observedGeneration":999}}`)
		return err != nil
	}, harness.Settles, poll, "the API server must deny the status")

	nodekeep.SetPolicy(t, policytest.Manifest(accepted))
	const name = "denied-status"
	assert.True(t, harness.Carries(nodekeep.Register(t, name), unchecked), "in the CREATE")
	nodekeep.Label(t, name, map[string]string{"lane": "b"})
	comesToCarry(t, name, unchecked, "lane=b:NoSchedule")
	allow()
	waits(t, "InForce")
}
