package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// policyGood waits until both processes say whether the policy is good.
func policyGood(t *testing.T, good float64) {
	t.Helper()
	for _, process := range []string{"webhook", "capture"} {
		harness.Eventually(t, func() bool { return metric(t, process, "nodekeep_policy_good") == good }, settles, 50*time.Millisecond, process)
	}
}

func aBadPolicyLeavesTheLastGoodOneInForce(t *testing.T) {
	const name = "reloaded-1"
	nodekeep.Register(t, name)
	policyGood(t, 1)
	reported := nextPolicyEvent(t, "PolicyInvalid")
	nodekeep.ForcePolicy(t, policyOf("  rules: [{selector: dedicated=ci, taint: \"dedicated={Value}:NoSchedule\"}]\n"))
	policyGood(t, 0)
	reported()
	described := nodekeep.MustKubectl(t, "describe", "nodepolicy", harness.PolicyName)
	assert.Contains(t, described, "PolicyInvalid", "describe selects Events by the UID of the NodePolicy")

	nodekeep.Label(t, name, map[string]any{"dedicated": "ci"})
	node := comesToCarry(t, name, "dedicated=ci:NoSchedule")
	nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci"})
	nodekeep.DeleteNode(t, name)
	assert.Equal(t, []string{"dedicated=ci:NoSchedule"}, harness.TaintsOf(nodekeep.Register(t, name)), "at registration too")
}

func aRuleThatIsRemovedTakesItsOwnTaintsWithIt(t *testing.T) {
	labels := map[string]any{"dedicated": "ci", roleCI: ""}
	for _, name := range []string{"unruled-1", "unruled-2", "unruled-3"} {
		nodekeep.Register(t, name)
		nodekeep.Label(t, name, labels)
		comesToCarry(t, name, "dedicated=ci:NoSchedule", "role=ci:NoExecute")
	}
	nodekeep.Taint(t, "unruled-1", "maintenance=disk:NoExecute", "dedicated=ci:NoExecute") // another effect is another taint
	nodekeep.Taint(t, "unruled-2", "dedicated=theirs:NoSchedule")                          // an admin has taken it over
	nodekeep.Register(t, "unruled-4")
	nodekeep.Taint(t, "unruled-4", "dedicated=ci:NoSchedule") // the same as the rule's, but an admin's
	nodekeep.WaitRecorded(t, nodekeep.Node(t, "unruled-4"), map[string]string{"dedicated:NoSchedule": "ci"})
	nodekeep.Label(t, "unruled-4", labels)
	comesToCarry(t, "unruled-4", "dedicated=ci:NoSchedule", "role=ci:NoExecute")

	nodekeep.SetPolicy(t, policyOf("  rules: [{selector: node-role.kubernetes.io/ci, taint: \"role=ci:NoExecute\"}]\n"))
	policyGood(t, 1)
	node := comesToCarry(t, "unruled-1", "dedicated=ci:NoExecute", "maintenance=disk:NoExecute", "role=ci:NoExecute")
	assert.Equal(t, "role=ci:NoExecute", node.Annotations[policy.TaintsAnnotation])
	comesToCarry(t, "unruled-2", "dedicated=theirs:NoSchedule", "role=ci:NoExecute")
	comesToCarry(t, "unruled-3", "role=ci:NoExecute")
	comesToCarry(t, "unruled-4", "dedicated=ci:NoSchedule", "role=ci:NoExecute")
	captureHasSeenAll(t)
	comesToCarry(t, "unruled-2", "dedicated=theirs:NoSchedule", "role=ci:NoExecute")
	comesToCarry(t, "unruled-4", "dedicated=ci:NoSchedule", "role=ci:NoExecute")
	for _, name := range []string{"unruled-1", "unruled-2", "unruled-3", "unruled-4"} {
		assert.Equal(t, []string{"role=ci:NoExecute"}, ruleTaintsOf(t, name), name)
	}
}
