package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// judged is a label that the cluster's own admission policy denies to kubelets.
const judged = "dedicated"

const judgedTaint = judged + "=ci:NoSchedule"

// deferring is a policy with a rule on the label; labels is the rest of the labels section.
func deferring(labels string) string {
	return "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {" + labels + "}\ntaints: {rules: [{selector: dedicated, taint: \"dedicated={value}:NoSchedule\"}]}\n"
}

// denyingKubelets installs a ValidatingAdmissionPolicy that denies a kubelet's CREATE with the label, while something is done.
func denyingKubelets(t *testing.T, do func()) {
	t.Helper()
	const name = "e2e-kubelets-may-not-set-dedicated"
	api := nodekeep.Admin.AdmissionregistrationV1()
	_, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				},
			}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "kubelets", Expression: "'system:nodes' in request.userInfo.groups"}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "!has(object.metadata.labels) || !('dedicated' in object.metadata.labels)",
				Message:    "group system:nodes may not add dedicated",
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	denies := func() bool {
		node := registration("judged-probe", map[string]string{judged: "ci"})
		_, err := kubelet(t, node.Name).CoreV1().Nodes().Create(context.WithoutCancel(t.Context()), node, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	}
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}))
		require.NoError(t, api.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
		require.Eventually(t, func() bool { return !denies() }, settles, 50*time.Millisecond, "the policy must no longer be in force")
	}()
	require.Eventually(t, denies, settles, 50*time.Millisecond, "the policy must come into force")
	do()
}

// What a webhook restores counts as set by the kubelet: without labels.defer the Node is kept out, and no policy of the cluster is
// bypassed. With it the Node registers behind the gate, and capture adds the label.
func TestALabelThatAnAdmissionPolicyDeniesToKubeletsIsDeferred(t *testing.T) {
	const name = "judged-1"
	want := map[string]string{judged: "ci", "rack": "r1"}
	deniedThenDeferred := func(t *testing.T, labels string, protected map[string]string) {
		withPolicy(t, deferring(labels), func() {
			deleteNode(t, name)
			_, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
			require.ErrorContains(t, err, "group system:nodes may not add dedicated", "the control: without labels.defer the label is in the CREATE")
		})
		withPolicy(t, deferring(labels+", defer: ["+judged+"]"), func() {
			withoutCapture(t, func() {
				back := register(t, name)
				assert.NotContains(t, back.Labels, judged)
				assert.Equal(t, "r1", back.Labels["rack"], "other labels are in the CREATE")
				assert.True(t, hasAll(back.Labels, protected), "protected labels go where the policy says: %v", back.Labels)
				assert.True(t, policy.DefaultGate.Holds(back.Spec.Taints))
				assert.True(t, carries(back, judgedTaint), "rules see the label that is to come: %v", back.Spec.Taints)
				assert.NotContains(t, givenTo(t, back), judged)
			})
			remembers(t, complete(t, name, want), want)
			assert.True(t, carries(getNode(t, name), judgedTaint))

			_, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
			assert.ErrorContains(t, err, "already exists", "a restarted kubelet gets past admission")
		})
	}
	withPolicy(t, deferring(""), func() {
		rememberedNode(t, name, want)
		denyingKubelets(t, func() {
			t.Run("protected deferred", func(t *testing.T) { deniedThenDeferred(t, "protected: deferred", nil) })
			t.Run("protected never", func(t *testing.T) { deniedThenDeferred(t, "protected: never", nil) })
			want[worker] = ""
			label(t, name, map[string]any{worker: ""})
			remembers(t, getNode(t, name), want)
			t.Run("protected inline", func(t *testing.T) {
				withPolicy(t, inlinePolicy, func() {
					asInline(t, func() {
						proved(t, "inline")
						deniedThenDeferred(t, "protected: inline", map[string]string{worker: ""})
					})
				})
			})
		})
	})
}

// labels.defer is about what kubelets bring. Others are judged as themselves.
func TestALabelThatThePolicyDefersIsInTheCreateOfAnybodyElse(t *testing.T) {
	const name = "judged-2"
	want := map[string]string{judged: "ci"}
	withPolicy(t, deferring("defer: ["+judged+"]"), func() {
		rememberedNode(t, name, want)
		deleteNode(t, name)
		back, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.True(t, hasAll(back.Labels, want))
		assert.False(t, policy.DefaultGate.On(back.Spec.Taints))
	})
}

// The supervisors of k3s and RKE2 set labels on Nodes under a field manager of each Node.
func TestLabelsOfTheSupervisorsOfK3sAndRKE2AreNotRemembered(t *testing.T) {
	for _, distribution := range []string{"k3s", "rke2"} {
		name := "owned-" + distribution
		manager := distribution + "-supervisor@" + name
		register(t, name)
		apply(t, name, manager, map[string]string{distribution + ".example.com/internal-ip": "192.0.2.1", "pool": "a"})
		label(t, name, map[string]any{"pool": "b", "rack": "r1"})
		node := getNode(t, name)
		require.Equal(t, "192.0.2.1", node.Labels[distribution+".example.com/internal-ip"])
		remembers(t, node, map[string]string{"pool": "b", "rack": "r1"})
	}
}
