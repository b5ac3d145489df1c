package doctor

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/selection"
	"nodekeep.dev/nodekeep/store"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func migrating(phase string) string {
	return policytest.Manifest("labels: {migrations: [{from: gpu, to: example.com/gpu, phase: " + phase + "}]}\n")
}

// migrates puts a policy with a migration into the cluster, that is released or held, with Nodes of these labels.
func migrates(t *testing.T, seen *Installation, phase string, released bool, nodes []map[string]string, uses ...selection.Use) {
	t.Helper()
	seen.setPolicy(migrating(phase))
	p, err := seen.PolicyInForce()
	require.NoError(t, err)
	if released {
		seen.accepts(map[string]string{store.RulesInForce: p.RulesHash()})
	} else {
		seen.holds(p.RulesHash())
	}
	m := impact.NewMigration(p.Migrations()[0], p)
	for _, labels := range nodes {
		m.Add(nodestate.State{Name: "n", Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}}, plan.Inputs{Policy: p, Now: seen.Now})
	}
	m.AddUses(uses)
	m.Summarize(nil)
	seen.Migrations = Found([]*impact.Migration{m})
}

func TestFindingsOfMigrations(t *testing.T) {
	const item = "nodepolicy/default: the migration of gpu to example.com/gpu "
	combined := []map[string]string{{"gpu": "a", "example.com/gpu": "a"}, {"gpu": "a"}}
	conflict := append(slices.Clone(combined), map[string]string{"gpu": "a", "example.com/gpu": "b"})
	done := []map[string]string{{"example.com/gpu": "a"}}
	selects := func(kind, name string) selection.Use {
		return selection.Use{Object: selection.Object{Kind: kind, Namespace: "apps", Name: name}, Field: selection.NodeSelector, Key: "gpu"}
	}
	daemonSet := selects("DaemonSet", "driver")
	const inUse = "1 DaemonSet selects on gpu by nodeSelector: apps/driver (removing the label deletes their Pods)"
	const heldRules = "label-rules: warning: configmap/nodekeep-accepted: the rules ..."
	requireFindings(t, map[string]breakage{
		"it is open": {
			func(s *Installation) { migrates(t, s, "both", true, combined, daemonSet) },
			[]string{"migrations: note: " + item + "is open, in phase both: old key only 1, both keys 1"},
		},
		"two values": {
			func(s *Installation) { migrates(t, s, "both", true, conflict) },
			[]string{
				"migrations: warning: " + item + "leaves 1 Nodes or records alone: both keys have a value of their own there",
				"migrations: note: " + item + "is open, in phase both: old key only 1, both keys 1, conflict 1",
			},
		},
		"it is held": {
			func(s *Installation) { migrates(t, s, "new", false, combined) },
			[]string{
				heldRules,
				"migrations: warning: " + item + "is held: capture does not remove gpu before an operator releases it",
				"migrations: note: " + item + "is open, ...",
			},
		},
		"it is held and blocked": {
			func(s *Installation) { migrates(t, s, "new", false, combined, daemonSet, selects("Pod", "p")) },
			[]string{
				heldRules,
				"migrations: warning: " + item + "is held, and blocked: " + inUse + "; and 1 more",
				"migrations: note: " + item + "is open, ...",
			},
		},
		"it is released although it is blocked": {
			func(s *Installation) { migrates(t, s, "new", true, combined, daemonSet) },
			[]string{
				"migrations: warning: " + item + "removes gpu from Nodes while it is in use: " + inUse,
				"migrations: note: " + item + "is open, ...",
			},
		},
		"it is done": {
			func(s *Installation) { migrates(t, s, "new", true, done) },
			[]string{"migrations: note: " + item + "is open, in phase new: new key only 1"},
		},
		"some kinds may not be listed": {
			func(s *Installation) {
				migrates(t, s, "both", true, combined)
				s.Migrations.Value[0].Unread = []string{"Pod", "Job"}
			},
			[]string{
				"migrations: unknown: " + item + "may be blocked: you may not list every Pod, Job",
				"migrations: note: " + item + "is open, ...",
			},
		},
	})
}

func TestHeldRulesThatFinishAMigrationAreAcceptedByTheCommandThatLooksAtSelectors(t *testing.T) {
	seen := healthy(t)
	migrates(t, &seen, "new", false, nil)
	result := resultOf(t, RunChecks(seen, nil), "label-rules")
	require.Len(t, result.Findings, 1)
	p, err := seen.PolicyInForce()
	require.NoError(t, err)
	assert.Equal(t, policy.MigrateNew, p.Migrations()[0].Phase)
	assert.Equal(t, []string{"nodekeep accept rules " + p.RulesHash() + " --dry-run", "nodekeep accept migration gpu=example.com/gpu"}, result.Findings[0].Commands)
}
