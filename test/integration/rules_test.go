package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

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
  - {taint: "node-ready/gpu:NoExecute", nodeSelector: {matchLabels: {node-role.kubernetes.io/gpu: ""}}}
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
	seen := nodekeep.WatchNodes(t)
	for _, change := range []struct {
		what  string
		label any
		want  []string
	}{
		{"the label is set: the taint appears", "ci", []string{"dedicated=ci:NoSchedule"}},
		{"its value changes: the taint follows", "gpu", []string{"dedicated=gpu:NoSchedule"}},
		{"the label goes: the taint vanishes", nil, []string{}},
	} {
		var mu sync.Mutex
		var took []time.Duration
		eachNode(names, func(name string) {
			started := time.Now()
			nodekeep.Label(t, name, map[string]any{"dedicated": change.label})
			after := nodekeep.Node(t, name).ResourceVersion
			at, ok := awaitState(t, seen, name, after, func(node *corev1.Node) bool { return slices.Equal(harness.TaintsOf(node), change.want) })
			if assert.True(t, ok, "%s: %s", name, change.what) {
				mu.Lock()
				took = append(took, at.Sub(started))
				mu.Unlock()
			}
		})
		require.Len(t, took, count)
		t.Logf("%s, on %d of %d Nodes: %s", change.what, len(took), count, percentiles(took))
	}
	for _, name := range names {
		require.Eventually(t, func() bool { return len(ruleTaintsOf(t, name)) == 0 }, settles, 10*time.Millisecond)
	}
}

// percentiles writes durations as text.
func percentiles(took []time.Duration) string {
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100].Round(100 * time.Microsecond) }
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, max %s", at(50), at(90), at(99), at(100))
}

func rulesMakeTaintsOfEveryEffectAndShowThem(t *testing.T) {
	const name = "rules-effects-1"
	node := nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci", roleCI: "", "soft": "yes"})
	all := []string{"dedicated=ci:NoSchedule", "role=ci:NoExecute", "soft:PreferNoSchedule"}
	assert.Equal(t, "dedicated=ci:NoSchedule,role=ci:NoExecute,soft:PreferNoSchedule", comesToCarry(t, name, all...).Annotations[policy.TaintsAnnotation])
	nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci", roleCI: "", "soft": "yes"}) // and none of the taints
	nodekeep.WaitEvent(t, name, "TaintsFollowed")

	nodekeep.Label(t, name, map[string]any{roleCI: nil, "soft": "no"})
	assert.Equal(t, "dedicated=ci:NoSchedule", comesToCarry(t, name, "dedicated=ci:NoSchedule").Annotations[policy.TaintsAnnotation])
	nodekeep.Label(t, name, map[string]any{"dedicated": nil})
	assert.NotContains(t, comesToCarry(t, name).Annotations, policy.TaintsAnnotation)
}
