package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// judged is a label that the cluster's own admission policy denies to kubelets.
const judged = "dedicated"

const judgedTaint = judged + "=ci:NoSchedule"

// deferring returns a policy with a rule on the label; labels is the rest of the labels section.
func deferring(labels string) string {
	return policytest.Manifest("labels: {" + labels + "}\ntaints: {rules: [{selector: dedicated, taint: \"dedicated={value}:NoSchedule\"}]}\n")
}

// denyingKubelets does something while the cluster denies a kubelet's CREATE with the label.
func denyingKubelets(t *testing.T, fn func()) {
	t.Helper()
	lift := nodekeep.Deny(t, "kubelets-may-not-set-dedicated", harness.Denial{
		Operation: admissionregistrationv1.Create, Condition: "'system:nodes' in request.userInfo.groups",
		Exception: "!has(object.metadata.labels) || !('dedicated' in object.metadata.labels)", Message: "group system:nodes may not add dedicated",
	}, func() bool {
		node := harness.RegistrationWith("judged-probe", map[string]string{judged: "ci"})
		_, err := nodekeep.Kubelet(t, node.Name).CoreV1().Nodes().Create(context.WithoutCancel(t.Context()), node, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	defer lift()
	fn()
}

// What a webhook restores counts as set by the kubelet: without labels.defer the Node is kept out, and no policy of the cluster is
// bypassed. With it the Node registers behind the gate, and capture adds the label. TestInline has the third case, protected: inline.
func TestALabelThatAnAdmissionPolicyDeniesToKubeletsIsDeferred(t *testing.T) {
	const name = "judged-1"
	want := map[string]string{judged: "ci", "rack": "r1"}
	nodekeep.RegisterRecorded(t, name, want)
	denyingKubelets(t, func() {
		for _, protected := range []string{"deferred", "never"} {
			t.Run("protected "+protected, func(t *testing.T) { deniedThenDeferred(t, name, "protected: "+protected, want, nil) })
		}
	})
}

// deniedThenDeferred registers a recorded Node again, without labels.defer and with it; labels is the rest of that section.
func deniedThenDeferred(t *testing.T, name, labels string, want, protected map[string]string) {
	t.Helper()
	withPolicy(t, deferring(labels), func() {
		nodekeep.DeleteNode(t, name)
		_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
		require.ErrorContains(t, err, "group system:nodes may not add dedicated", "the control: without labels.defer the label is in the CREATE")
	})
	withPolicy(t, deferring(labels+", defer: ["+judged+"]"), func() {
		nodekeep.WithoutCapture(t, func() {
			returned := nodekeep.Register(t, name)
			assert.NotContains(t, returned.Labels, judged)
			assert.Equal(t, "r1", returned.Labels["rack"], "other labels are in the CREATE")
			assert.True(t, harness.HasAll(returned.Labels, protected), "protected labels go where the policy says: %v", returned.Labels)
			assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints))
			assert.True(t, harness.Carries(returned, judgedTaint), "rules see the label that is to come: %v", returned.Spec.Taints)
			assert.NotContains(t, givenTo(t, returned), judged)
		})
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
		comesToCarry(t, name, judgedTaint)

		_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
		assert.ErrorContains(t, err, "already exists", "a restarted kubelet gets past admission")
	})
}

// labels.defer is about what kubelets bring. Others are judged as themselves.
func TestALabelThatThePolicyDefersIsInTheCreateOfAnybodyElse(t *testing.T) {
	const name = "judged-2"
	want := map[string]string{judged: "ci"}
	withPolicy(t, deferring("defer: ["+judged+"]"), func() {
		nodekeep.RegisterRecorded(t, name, want)
		nodekeep.DeleteNode(t, name)
		returned, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.True(t, harness.HasAll(returned.Labels, want))
		assert.False(t, policy.DefaultGate.Present(returned.Spec.Taints))
	})
}
