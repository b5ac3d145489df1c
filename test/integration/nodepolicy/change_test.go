package nodepolicy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

const poll = 20 * time.Millisecond

// comesToCarry waits until a Node has exactly these taints, less what Kubernetes adds by itself.
func comesToCarry(t *testing.T, name string, taints ...string) {
	t.Helper()
	slices.Sort(taints)
	var found []string
	harness.Eventually(t, func() bool {
		found = harness.TaintsOf(nodekeep.Node(t, name))
		return slices.Equal(taints, found)
	}, harness.Settles, poll, "node %s must come to carry %v; it has %v", name, taints, &found)
}

func TestTheChangeOfAPolicyActsInEveryProcessWithinSeconds(t *testing.T) {
	const live, fresh = "changed-live", "changed-new"
	withSections(t, "taints: {rules: [{selector: lane, taint: \"lane={value}:NoSchedule\"}]}")
	nodekeep.Register(t, live)
	nodekeep.Label(t, live, map[string]string{"lane": "a"})
	comesToCarry(t, live, "lane=a:NoSchedule")

	nodekeep.SetPolicy(t, policytest.Manifest("taints:\n  rules: [{selector: lane, taint: \"lane={value}:NoExecute\"}]\n"+
		"  register: [{taint: \"example.com/new:NoSchedule\"}]\n"+
		"verify: {profiles: [{name: all, nodeSelector: checked=yes, checks: [{name: api, api: {}}]}]}"))
	node := harness.RegistrationWith(fresh, map[string]string{"checked": "yes"})
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	created := nodekeep.RegisterNode(t, node)
	defer nodekeep.DeleteNode(t, fresh)
	nodekeep.Untaint(t, fresh, corev1.TaintNodeNotReady+":NoSchedule") // as the node lifecycle controller does, which does not run here
	assert.True(t, harness.Carries(created, "example.com/new:NoSchedule"), "the webhook, in the CREATE")
	comesToCarry(t, live, "lane=a:NoExecute") // capture
	harness.Eventually(t, func() bool {       // verify
		pods, err := nodekeep.Admin.CoreV1().Pods(verify.Namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName == fresh })
	}, harness.Settles, poll, "verify must start a worker Pod; its log is %s", nodekeep.Cluster.LogPath("nodekeep-verify"))
}
