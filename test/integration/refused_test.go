package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// refuseLabel makes the API server refuse every update that puts a label on a Node, as some other team's rule might.
func refuseLabel(t *testing.T, key string) (lift func()) {
	t.Helper()
	client := nodekeep.Admin.AdmissionregistrationV1()
	fail := admissionregistrationv1.Fail
	rule := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-such-label"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "!has(object.metadata.labels) || !('" + key + "' in object.metadata.labels)", Message: "label refused by the test",
			}},
		},
	}
	_, err := client.ValidatingAdmissionPolicies().Create(t.Context(), rule, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "no-such-label"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "no-such-label", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return func() {
		require.NoError(t, client.ValidatingAdmissionPolicyBindings().Delete(t.Context(), "no-such-label", metav1.DeleteOptions{}))
		require.NoError(t, client.ValidatingAdmissionPolicies().Delete(t.Context(), "no-such-label", metav1.DeleteOptions{}))
	}
}

func TestALabelThatTheAPIServerRefusesStaysRememberedAndTheGateStays(t *testing.T) {
	const name, key = "refused-1", "node-role.kubernetes.io/refused"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1", key: "", worker: ""})
	nodekeep.DeleteNode(t, name)
	lift := refuseLabel(t, key)
	require.Eventually(t, func() bool { // the rule takes a moment to be in force
		_, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), harness.RegistrationWith("refused-probe", map[string]string{"probe": "1"}), metav1.CreateOptions{})
		if err != nil {
			return false
		}
		defer nodekeep.DeleteNode(t, "refused-probe")
		_, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), "refused-probe", "application/merge-patch+json",
			harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": map[string]string{key: ""}}}), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	}, settles, 100*time.Millisecond)

	back := nodekeep.Register(t, name)
	assert.True(t, policy.DefaultGate.Holds(back.Spec.Taints))
	require.Eventually(t, func() bool {
		record, ok := nodekeep.Record(t, name)
		return ok && record.Newest().UID == back.UID
	}, settles, 50*time.Millisecond, "adopted without the refused label")
	record, _ := nodekeep.Record(t, name)
	assert.Equal(t, map[string]string{"a": "1", worker: "", key: ""}, record.Items())
	nodekeep.WaitEvent(t, name, "LabelRefused")
	node := nodekeep.Node(t, name)
	assert.Contains(t, node.Labels, worker, "the other labels were given")
	assert.True(t, policy.DefaultGate.Holds(node.Spec.Taints), "the gate stays until a person decides")

	lift()
	require.Eventually(t, func() bool { // and is in force for another moment
		_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, "application/merge-patch+json",
			harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": map[string]string{key: ""}}}), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	}, settles, 100*time.Millisecond)
	nodekeep.WithoutCapture(t, func() {}) // a new capture asks again
	nodekeep.WaitRestored(t, name, map[string]string{"a": "1", key: "", worker: ""})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"a": "1", key: "", worker: ""})
}
