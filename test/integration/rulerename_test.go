package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// A rule is what it sets, not its name. The device plugin of the Node is away, so nothing but what is known from before says that it has GPUs.
func TestARuleUnderAnotherNameKeepsItsLabelAndTheTaintThatFollows(t *testing.T) {
	const name, taint = "renamed-rule-1", "renamed-rule=gpu:NoSchedule"
	prev := map[string]string{"accelerator": "renamed"}
	called := func(rule string) string {
		return policytest.Manifest(`labels:
  rules:
  - {name: ` + rule + `, when: {names: [` + name + `], capacity: {nvidia.com/gpu: ">=1"}}, set: {accelerator: renamed}}
taints:
  rules:
  - {selector: accelerator=renamed, taint: "` + taint + `"}
`)
	}
	follows := func(rule string) {
		t.Helper()
		harness.Eventually(t, func() bool {
			return strings.Contains(nodekeep.Node(t, name).Annotations[policy.LabelsAnnotation], `"rule":"`+rule+`"`)
		}, settles, 20*time.Millisecond, "the list must come to name rule %s", rule)
	}
	withPolicy(t, called("one"), func() {
		nodekeep.Register(t, name)
		reports(t, name, "2", longReady())
		becomes(t, name, prev)
		nodekeep.DeleteNode(t, name)
		nodekeep.SetPolicy(t, called("two"))
		nodekeep.RulesInForce(t)

		watcher := nodekeep.WatchNodes(t)
		nodekeep.Register(t, name) // without its devices
		becomes(t, name, prev)
		follows("two")
		nodekeep.SetPolicy(t, called("three"))
		follows("three")
		becomes(t, name, prev)
		watcher.Stop()
		for _, state := range watcher.States(name) {
			assert.True(t, harness.Gated(state.Node) || harness.HasAll(state.Labels, prev) && harness.Carries(state.Node, taint),
				"version %s is open without what the rule set: %v, %v", state.ResourceVersion, state.Labels, harness.TaintsOf(state.Node))
		}
	})
	becomes(t, name, map[string]string{})
	nodekeep.DeleteNode(t, name)
}
