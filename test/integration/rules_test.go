package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// Labels of the Nodes in these tests; no kubelet may carry roleCI in its CREATE.
const (
	roleCI = "node-role.kubernetes.io/ci"
	verify = "example.com/verify"
)

// rules is the policy of most tests about taints.
var rules = policyOf(`
  rules:
  - {selector: dedicated, taint: "dedicated={value}:NoSchedule"}
  - {selector: node-role.kubernetes.io/ci, taint: "role=ci:NoExecute"}
  - {selector: soft=yes, taint: "soft:PreferNoSchedule"}
  register:
  - {taint: "node-ready/unverified=true:NoSchedule", nodeSelector: "example.com/verify=yes"}
  - {taint: "node-ready/gpu:NoExecute", nodeSelector: "node-role.kubernetes.io/gpu="}
`)

// resync is how often capture does that in these tests: the least that it takes.
const resync = time.Second

// TestTaintsByRulesAndAtRegistration holds the tests that share this policy, with many a resync among them.
func TestTaintsByRulesAndAtRegistration(t *testing.T) {
	nodekeep.UsePolicy(t, rules, "--resync", resync.String())
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"taints follow the labels of one hundred Nodes", taintsFollowTheLabelsOfOneHundredNodes},
		{"rules make taints of every effect and show them", rulesMakeTaintsOfEveryEffectAndShowThem},
		{"no watcher sees a known Node without its taints", noWatcherSeesAKnownNodeWithoutItsTaints},
		{"a taint of another client is left alone", aTaintOfSomebodyElseIsLeftAlone},
		{"what happened while capture was down is made good", whatHappenedWhileCaptureWasDownIsMadeGood},
		{"a registration taint is there from the first state and added once", aRegistrationTaintIsThereFromTheFirstStateAndPutOnOnce},
		{"with the webhook down capture puts registration taints on before the gate goes", withTheWebhookDownCaptureRegistersBeforeTheGateGoes},
		{"registration selects by the labels that the Node will have", registrationSelectsByTheLabelsThatTheNodeWillHave},
		{"a Node that was there before gets no registration taint", aNodeThatWasThereBeforeGetsNoRegistrationTaint},
		{"no lie of a kubelet changes a taint without the guard policies", noLieOfAKubeletChangesATaint},
		{"eight writers and a rule lose nothing", eightWritersAndARuleLoseNothing},
		{"a rule's taint removed by an operator returns and resyncs write nothing", aRulesTaintComesBackAndResyncsWriteNothing},
		{"a bad policy leaves the last good one in force", aBadPolicyLeavesTheLastGoodOneInForce},
		{"a rule that is removed takes its own taints with it", aRuleThatIsRemovedTakesItsOwnTaintsWithIt},
	} {
		t.Run(test.name, test.run)
	}
}

func taintsFollowTheLabelsOfOneHundredNodes(t *testing.T) {
	const count = 100
	names := harness.Names("rules", count)
	eachNode(names, func(name string) { nodekeep.Register(t, name) })
	for _, change := range []struct {
		label any
		want  []string
	}{
		{"ci", []string{"dedicated=ci:NoSchedule"}},
		{"gpu", []string{"dedicated=gpu:NoSchedule"}},
		{nil, nil},
	} {
		eachNode(names, func(name string) {
			nodekeep.Label(t, name, map[string]any{"dedicated": change.label})
			comesToCarry(t, name, change.want...)
		})
	}
	for _, name := range names {
		harness.Eventually(t, func() bool { return len(ruleTaintsOf(t, name)) == 0 }, settles, 10*time.Millisecond)
	}
}

func rulesMakeTaintsOfEveryEffectAndShowThem(t *testing.T) {
	const name = "rules-effects-1"
	node := nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci", roleCI: "", "soft": "yes"})
	all := []string{"dedicated=ci:NoSchedule", "role=ci:NoExecute", "soft:PreferNoSchedule"}
	assert.Equal(t, "dedicated=ci:NoSchedule,role=ci:NoExecute,soft:PreferNoSchedule", comesToCarry(t, name, all...).Annotations[policy.TaintsAnnotation])
	nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci", roleCI: "", "soft": "yes"}) // and none of the taints
	nodekeep.WaitEvent(t, name, "RulesApplied")

	nodekeep.Label(t, name, map[string]any{roleCI: nil, "soft": "no"})
	assert.Equal(t, "dedicated=ci:NoSchedule", comesToCarry(t, name, "dedicated=ci:NoSchedule").Annotations[policy.TaintsAnnotation])
	nodekeep.Label(t, name, map[string]any{"dedicated": nil})
	assert.NotContains(t, comesToCarry(t, name).Annotations, policy.TaintsAnnotation)
}
