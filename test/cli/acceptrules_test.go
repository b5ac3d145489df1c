package cli

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// tierPolicy has a rule that sets label tier on every Node.
func tierPolicy(value string) string {
	return policytest.Manifest("labels: {rules: [{name: all, set: {tier: " + value + "}}]}\n")
}

// rollOut gives the cluster a policy, which the processes have read then, and returns the hash of its rules.
func rollOut(t *testing.T, content string) (rules string) {
	t.Helper()
	loaded, err := policy.Load([]byte(content), policy.DefaultGate)
	require.NoError(t, err)
	nodekeep.SetPolicy(t, content)
	return loaded.RulesHash()
}

// goesBy gives the cluster a policy. The result gives it the one from before, whose rules are in force then.
func goesBy(t *testing.T, content string) (returned func()) {
	t.Helper()
	head := nodekeep.Policy(t)
	rollOut(t, content)
	return func() {
		t.Helper()
		inForce(t, rollOut(t, head))
	}
}

// withPolicy deletes everything and has the processes follow another policy. The result does the same with the shipped policy, and waits until it is in
// force: the next test must not find rules that are held. The shipped policy has no rules, so without Nodes it is not held for long.
func withPolicy(t *testing.T, content string) (returned func()) {
	t.Helper()
	loseEverything(t)
	restore := nodekeep.UsePolicy(t, content)
	return func() {
		t.Helper()
		loseEverything(t)
		restore()
		inForce(t, policy.NoRules)
	}
}

// inForce waits until rules are in force. Where capture has noted none, no rules are.
func inForce(t *testing.T, rules string) {
	t.Helper()
	harness.Eventually(t, func() bool { return cmp.Or(rulesState(t)[store.RulesInForce], policy.NoRules) == rules }, settles, 50*time.Millisecond)
}

// allHave waits until each of three Nodes has a value of a label. The key is as jsonpath writes it.
func allHave(t *testing.T, key, value string) {
	t.Helper()
	harness.Eventually(t, func() bool { return valuesOf(t, key) == value+" "+value+" "+value }, settles, 100*time.Millisecond)
}

func valuesOf(t *testing.T, key string) string {
	t.Helper()
	return nodekeep.MustKubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.labels."+key+"}")
}

func rulesState(t *testing.T) map[string]string {
	t.Helper()
	found, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.AcceptedConfigMap, metav1.GetOptions{})
	if err != nil {
		found = &corev1.ConfigMap{}
	}
	return found.Data
}

func TestRulesThatAreHeldChangeLabelsOnceAnOperatorAcceptsThem(t *testing.T) {
	defer withPolicy(t, tierPolicy("one"))()
	first := rollOut(t, tierPolicy("one"))
	inForce(t, first)
	for _, name := range []string{"accept-rules-1", "accept-rules-2", "accept-rules-3"} {
		register(t, name)
	}
	allHave(t, "tier", "one")

	second := rollOut(t, tierPolicy("two"))
	harness.Eventually(t, func() bool {
		out := nodekeep.MustKubectl(t, "get", "events", "--field-selector", "reason="+rollout.ChangesHeld, "-o", "jsonpath={.items[*].message}")
		return strings.Contains(out, second)
	}, settles, 100*time.Millisecond)
	harness.Eventually(t, func() bool { return strings.Contains(run(t, "doctor").Out, "nodekeep accept rules "+second) }, settles, 500*time.Millisecond,
		"doctor names what is held, once the status of the NodePolicy does")

	a := run(t, "accept", "rules", first, "--yes")
	assert.Equal(t, 3, a.Code, "rules that are not those of the policy are refused")
	assert.Contains(t, a.ErrOut, second)
	a = run(t, "accept", "rules", second, "--dry-run")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Equal(t, "Once accepted, the rules "+second+" would remove or change labels on 3 of 3 Nodes.\n", a.Out)
	assert.Equal(t, "Nothing was changed (dry run).\n", a.ErrOut)
	a = run(t, "accept", "rules", second)
	assert.NotEqual(t, 0, a.Code, "nobody has answered the question")
	assert.Empty(t, rulesState(t)[store.RulesAccepted])
	assert.Equal(t, "one one one", valuesOf(t, "tier"), "nothing has changed yet")

	a = run(t, "accept", "rules", second, "--yes").RequireDone(t)
	assert.Equal(t, "Accepted: the rules "+second+". capture removes or changes labels on 3 of 3 Nodes.\n", a.Out)
	allHave(t, "tier", "two")
	assert.Equal(t, second, rulesState(t)[store.RulesInForce], "capture has the right to write it")
	a = run(t, "accept", "rules", second).RequireDone(t)
	assert.Equal(t, "Nothing is held: capture goes by the rules "+second+".\n", a.Out)
}
