package verification

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// shown returns the condition of verification.
func shown(node *corev1.Node) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == verify.Condition {
			return condition
		}
	}
	return corev1.NodeCondition{}
}

func says(status corev1.ConditionStatus, cause verify.Cause) func(*corev1.Node) bool {
	return func(node *corev1.Node) bool {
		return shown(node).Status == status && shown(node).Reason == string(cause)
	}
}

// The controller runs as the ServiceAccount that is shipped, and the admission policies of the chart are in force.
func TestAProfileThatOnlyReportsClosesNoNodeAndItsConditionFollowsTheChecks(t *testing.T) {
	warm(t)
	labels := map[string]string{selected: "reports"}
	pods := nodekeep.Admin.CoreV1().Pods("default")
	early := workload("early-report")
	early.Spec.NodeSelector = map[string]string{selected: "reports"}
	_, err := pods.Create(t.Context(), early, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		nodekeepKubectl("delete", "pod", "early-report", "--grace-period=0", "--force", "--ignore-not-found")
	})
	k := registerWith(t, "reports-a", labels, nil)
	assert.False(t, held(nodekeep.Node(t, "reports-a")), "the webhook adds no taint")
	require.Eventually(t, func() bool {
		early, err := pods.Get(t.Context(), "early-report", metav1.GetOptions{})
		return err == nil && early.Spec.NodeName == "reports-a"
	}, settles, 50*time.Millisecond, "a workload is bound before any check has ended")
	assert.Empty(t, shown(nodekeep.Node(t, "reports-a")).Status)

	k.reportWith(honest)
	for _, name := range []string{"reports-b", "reports-c"} {
		registerWith(t, name, labels, honest)
	}
	for _, name := range []string{"reports-a", "reports-b", "reports-c"} {
		node := waitFor(t, name, "reported", says(corev1.ConditionTrue, verify.CauseChecksPassed))
		assert.NotContains(t, node.Labels, verify.Label)
		assert.False(t, held(node))
	}

	// The checks are asked again at once, as nodekeep recheck has it.
	prev := shown(nodekeep.Node(t, "reports-a"))
	k.reportWith(failing)
	nodekeep.MustKubectl(t, "annotate", "node", "reports-a", "--overwrite", verify.Annotation+"="+progress(nodekeep.Node(t, "reports-a")).Restart().String())
	node := waitFor(t, "reports-a", "failing, as the others pass", says(corev1.ConditionFalse, verify.CauseChecksFailed))
	failed := shown(node)
	assert.False(t, failed.LastTransitionTime.Before(&prev.LastTransitionTime))
	assert.False(t, held(node))
	report, err := nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Get(t.Context(), verify.ReportName("reports-a"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Contains(t, report.Data[verify.ReportKey], `"failed"`)
	harness.Eventually(t, func() bool {
		return harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_verify_nodes{profile="reports",state="failing"}`) == 1
	}, settles, 50*time.Millisecond)
	node = waitFor(t, "reports-a", "failing on", func(node *corev1.Node) bool {
		return progress(node).Failed >= 3 && shown(node).LastHeartbeatTime.After(failed.LastHeartbeatTime.Time)
	})
	assert.Equal(t, failed.LastTransitionTime, shown(node).LastTransitionTime, "from here other tools count")

	k.reportWith(honest)
	node = waitFor(t, "reports-a", "passing again", says(corev1.ConditionTrue, verify.CauseChecksPassed))
	assert.NotContains(t, node.Labels, verify.Label)
	harness.Eventually(t, func() bool { return len(workers(t, "reports-a")) == 0 }, settles, 50*time.Millisecond)
}

func TestATaintOfVerificationIsRemovedWhereTheProfileOnlyReports(t *testing.T) {
	warm(t)
	tainted := harness.RegistrationWith("reports-tainted", map[string]string{selected: "reports"})
	tainted.Spec.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
	nodekeep.RegisterNode(t, tainted)
	play(t, "reports-tainted", honest)
	waitFor(t, "reports-tainted", "open and checked", func(node *corev1.Node) bool {
		return !held(node) && says(corev1.ConditionTrue, verify.CauseChecksPassed)(node)
	})
}
