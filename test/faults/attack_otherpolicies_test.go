package faults

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
)

// idle is how long nothing may be written to a Node that nobody changes.
func idle() time.Duration {
	if os.Getenv("NODEKEEP_LONG_FAULTS") == "1" {
		return time.Minute
	}
	return 5 * time.Second
}

// underMutation does something while a policy of the cluster changes Nodes by a JSON patch. in reports whether it is in force.
func underMutation(t *testing.T, name, patch string, operations []admissionregistrationv1.OperationType, in func() bool, do func()) {
	t.Helper()
	policies, bindings := nodekeep.Admin.AdmissionregistrationV1().MutatingAdmissionPolicies(), nodekeep.Admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	_, err := policies.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      new(admissionregistrationv1.Fail),
			ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: operations, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				},
			}}},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: patch},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = bindings.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, bindings.Delete(t.Context(), name, metav1.DeleteOptions{}))
		require.NoError(t, policies.Delete(t.Context(), name, metav1.DeleteOptions{}))
		require.Eventually(t, func() bool { return !in() }, settles, 50*time.Millisecond, "the policy must end")
	}()
	require.Eventually(t, in, settles, 50*time.Millisecond, "the policy must come into force")
	do()
}

// rests asserts that nobody writes a Node or its record for a while.
func rests(t *testing.T, name string) {
	t.Helper()
	node, configMap := getNode(t, name).ResourceVersion, recordMap(t, name).ResourceVersion
	time.Sleep(idle())
	assert.Equal(t, node, getNode(t, name).ResourceVersion, "the Node must rest")
	assert.Equal(t, configMap, recordMap(t, name).ResourceVersion, "the record must rest")
}

func TestALabelThatAnotherAdmissionPolicySetsAtTheCreationStaysAndTheRecordFollows(t *testing.T) {
	const name = "otherpolicy-set"
	remembered(t, name, map[string]string{"tier": "gold", "dedicated": "ci", worker: ""})
	deleteNode(t, name)
	inForce := func() bool {
		dry, err := kubelet(t, name+"-probe").CoreV1().Nodes().Create(t.Context(), registration(name+"-probe", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && dry.Labels["tier"] == "policy"
	}
	want := map[string]string{"tier": "policy", "dedicated": "ci", worker: ""}
	underMutation(t, name, `[JSONPatch{op: "add", path: "/metadata/labels/tier", value: "policy"}]`, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, inForce, func() {
		register(t, name)
		node := complete(t, name, want)
		remembers(t, node, want)
		rests(t, name)
	})
	deleteNode(t, name)
	register(t, name)
	remembers(t, complete(t, name, want), want)
	deleteNode(t, name)
}

// Such a policy takes the evidence away. Labels may come back once that a client removed, but nothing is fought over.
func TestAnAdmissionPolicyThatRemovesTheAnnotationsOfNodekeepIsNotFought(t *testing.T) {
	const name = "otherpolicy-strip"
	want := map[string]string{"dedicated": "ci", worker: ""}
	remembered(t, name, want)
	deleteNode(t, name)
	register(t, name+"-probe")
	inForce := func() bool {
		body := mustJSON(t, map[string]any{"metadata": map[string]any{"annotations": map[string]string{policy.StampAnnotation: "{}"}}})
		dry, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name+"-probe", types.MergePatchType, body, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && dry.Annotations[policy.StampAnnotation] == ""
	}
	const remove = `has(object.metadata.annotations) && "nodekeep.dev/restored" in object.metadata.annotations ? [JSONPatch{op: "remove", path: "/metadata/annotations/nodekeep.dev~1restored"}] : []`
	registers := func() {
		underMutation(t, name, remove, []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}, inForce, func() {
			register(t, name)
			node := complete(t, name, want)
			assert.NotContains(t, node.Annotations, policy.StampAnnotation)
			remembers(t, node, want)
			rests(t, name)
			deleteNode(t, name)
		})
	}
	t.Run("webhook up", func(*testing.T) { registers() })
	t.Run("webhook down", func(*testing.T) { withoutWebhook(t, registers) })
	deleteNode(t, name+"-probe")
}
