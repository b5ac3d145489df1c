package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// migrating returns a policy that renames gpu, with further sections.
func migrating(phase, further string) string {
	return policytest.Manifest("labels:\n  migrations: [{from: gpu, to: example.com/gpu, phase: " + phase + "}]\n" + further)
}

func TestMigrateNewRefusesWhileASelectorOfThePolicyNamesTheOldKey(t *testing.T) {
	loseEverything(t)
	defer goesBy(t, migrating("both", ""))()
	for field, sections := range map[string]string{
		"taints.rules[0].selector":        "taints: {rules: [{selector: gpu=a, taint: \"example.com/gpu-only:NoSchedule\"}]}\n",
		"taints.register[0].nodeSelector": "taints: {register: [{taint: \"example.com/starting:NoSchedule\", nodeSelector: gpu=a}]}\n",
		"verify.profiles[0].nodeSelector": "verify: {profiles: [{name: gpu, nodeSelector: gpu, checks: [{name: api, api: {}}]}]}\n",
		"labels.rules[0].when":            "  rules: [{name: fast, when: {labels: gpu}, set: {example.com/fast: \"true\"}}]\n",
	} {
		t.Run(field, func(t *testing.T) {
			for _, phase := range []string{"both", "new"} {
				rollOut(t, migrating(phase, sections))
				refused := run(t, "accept", "migration", "gpu=example.com/gpu", "--yes")
				assert.Equal(t, 1, refused.Code, "phase %s", phase)
				assert.Contains(t, refused.ErrOut, field+" of the policy selects on gpu\n", "phase %s", phase)
				assert.Contains(t, refused.ErrOut, "nothing was changed", "phase %s", phase)
				assert.Contains(t, run(t, "report", "migrations").Out, field, "phase %s", phase)
			}
		})
	}
	assert.Empty(t, rulesState(t)[store.RulesAccepted])
}

func TestMigrateNewWithForceRemovesAnOldKeyThatIsInUseButNoneThatAKubeletSets(t *testing.T) {
	defer withPolicy(t, migrating("both", ""))()
	register(t, "force-1")
	edit(t, "force-1", map[string]string{"gpu": "a"})
	registerWith(t, "force-foreign", map[string]string{"gpu": "a"}) // --node-labels
	keys := func(name, wanted string) func() bool {
		return func() bool {
			found := nodekeep.Node(t, name).Labels
			return found["gpu"]+","+found["example.com/gpu"] == wanted
		}
	}
	require.Eventually(t, keys("force-1", "a,a"), settles, 100*time.Millisecond)
	require.Eventually(t, keys("force-foreign", "a,a"), settles, 100*time.Millisecond)
	selectsOn(t, "force-agent", "gpu")
	requireGolden(t, "report-migration-foreign", run(t, "report", "migrations", "gpu=example.com/gpu").RequireDone(t).Out)
	status := run(t, "report", "migrations", "--exit-code")
	assert.Equal(t, 1, status.Code)
	requireGolden(t, "report-migrations-foreign", status.Out)

	rules := rollOut(t, migrating("new", ""))
	harness.Eventually(t, func() bool {
		events := nodekeep.MustKubectl(t, "get", "events", "--field-selector", "reason="+rollout.ChangesHeld, "-o", "jsonpath={.items[*].message}")
		return strings.Contains(events, "nodekeep accept migration gpu=example.com/gpu")
	}, settles, 100*time.Millisecond)
	refused := run(t, "accept", "migration", "gpu=example.com/gpu", "--yes")
	assert.Equal(t, 1, refused.Code)
	assert.Empty(t, rulesState(t)[store.RulesAccepted])
	assert.True(t, keys("force-1", "a,a")(), "nothing has changed yet")

	forced := run(t, "accept", "migration", "gpu=example.com/gpu", "--force", "--yes")
	require.Zero(t, forced.Code, forced.ErrOut)
	assert.Contains(t, forced.ErrOut, "DaemonSet selects on gpu by nodeSelector: default/force-agent (removing the label deletes their Pods)")
	require.Eventually(t, keys("force-1", ",a"), settles, 100*time.Millisecond)
	inForce(t, rules)
	eventually(t, "force-1", func(r record.Record) bool { _, ok := r.Items()["gpu"]; return !ok })
	assert.True(t, keys("force-foreign", "a,a")(), "the kubelet sets it again")
	status = run(t, "report", "migrations", "--exit-code")
	assert.Equal(t, 1, status.Code)
	requireGolden(t, "report-migrations-forced", status.Out)
}
