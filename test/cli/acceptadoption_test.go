package cli

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// ruleSets waits until the annotation lists a label as a rule's, the record has none of an operator, and nothing is left to do.
func ruleSets(t *testing.T, name, value string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		listed := policy.RuleLabelsOf(node.Annotations[policy.LabelsAnnotation])["tier"]
		listed.Version = 0
		r := recordOf(t, name)
		return node.Labels["tier"] == value && r != nil && r.Items()["tier"] == "" && listed == record.RuleLabel{Value: value, Rule: "all"}
	}, settles, 50*time.Millisecond, "on %s, tier=%s must be the rule's", name, value)
}

func TestLabelsOfAnOlderJobAreHandedOverToARuleAndFollowIt(t *testing.T) {
	shipped := nodekeep.Policy(t)
	defer withPolicy(t, shipped)()
	jobs, special := []string{"adopt-1", "adopt-2", "adopt-3", "adopt-4"}, "adopt-5"
	for _, name := range jobs {
		register(t, name)
		edit(t, name, map[string]string{"tier": "one"})
	}
	register(t, special)
	edit(t, special, map[string]string{"tier": "mine"})
	ends(t, 3, "no rule of the policy in the cluster sets label tier", "accept", "adoption", "tier", "--yes")

	follow := func(rules string) {
		t.Helper()
		inForce(t, rules)
		nodekeep.RulesInForce(t)
	}
	follow(rollOut(t, tierPolicy("one")))
	// Nodes that register again show nodekeep, and no client, as the one who set the label.
	remove(t, jobs[3])
	register(t, jobs[3])
	eventually(t, jobs[3], func(r record.Record) bool { return r.DeletedAt.IsZero() && r.Items()["tier"] == "one" })

	ends(t, 3, "these do: all", "accept", "adoption", "tier", "--rule", "none")
	a := run(t, "accept", "adoption", "tier", "--dry-run")
	assert.Equal(t, 1, a.Code, "a label is left alone")
	requireGolden(t, "accept-adoption-dry-run", a.Out+a.ErrOut)
	a = run(t, "accept", "adoption", "tier")
	assert.Equal(t, 3, a.Code, "nobody has answered")
	for _, name := range jobs {
		assert.Equal(t, "one", recordOf(t, name).Items()["tier"], "nothing was changed")
	}

	a = ends(t, 1, "label tier is left alone on 1 Node", "accept", "adoption", "tier", "--yes")
	assert.Contains(t, a.Out, "Label tier: handed over on 4 Nodes.")
	for _, name := range jobs {
		ruleSets(t, name, "one")
	}
	late := "adopt-6"
	nodekeep.WithoutCapture(t, func() {
		register(t, late) // its rule has set the label in the CREATE
		nodekeep.MustKubectl(t, "annotate", "node", late, policy.LabelsAnnotation+"-")
		node := nodekeep.Node(t, late)
		_, err := records(t).Put(t.Context(), record.New(late, record.Object{UID: node.UID, Version: 1}, map[string]string{"tier": "one"}), "") // an operator's by now
		require.NoError(t, err)
		a = run(t, "accept", "adoption", "tier", "--rule", "all", "--yes")
		assert.Contains(t, a.Out, "Label tier: handed over on 1 Node.")
		assert.Empty(t, recordOf(t, late).Items(), "capture is not needed for that")
	})
	ruleSets(t, late, "one")
	jobs = append(jobs, late)

	checked := policyFile(t, "labels: {rules: [{name: all, set: {tier: two}}]}")
	assert.Equal(t, "true", run(t, "check", checked, "--against-cluster", "-o", "jsonpath={.impact.labelRules.held}").RequireDone(t).Out)
	a = shell(t, filepath.Dir(checked), "nodekeep check policy.yaml --against-cluster -o wide").RequireDone(t)
	requireGolden(t, "check-rules-impact", a.Out)
	second := rollOut(t, tierPolicy("two"))
	assert.Contains(t, a.Out, "accept rules "+second)
	accepted := func(rules string) {
		t.Helper()
		harness.Eventually(t, func() bool { return run(t, "accept", "rules", rules, "--yes").Code == 0 }, settles, 500*time.Millisecond)
		follow(rules)
	}
	accepted(second)
	for _, name := range jobs {
		ruleSets(t, name, "two")
	}
	remove(t, jobs[0])
	assert.NotContains(t, recordOf(t, jobs[0]).Items(), "tier")
	register(t, jobs[0])
	assert.Equal(t, "two", labelsOf(t, jobs[0])["tier"], "by the rule")
	ruleSets(t, jobs[0], "two")

	rollOut(t, shipped)
	accepted(policy.NoRules)
	harness.Eventually(t, func() bool {
		return nodekeep.MustKubectl(t, "get", "nodes", "-l", "tier", "-o", "name") == "node/"+special+"\n"
	}, settles, 100*time.Millisecond, "labels go with their rule, and the one that was left alone stays")
	remove(t, jobs[1])
	register(t, jobs[1])
	assert.NotContains(t, labelsOf(t, jobs[1]), "tier", "it is not restored as an operator's")
}
