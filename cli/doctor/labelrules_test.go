package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
)

// holds has the NodePolicy say that capture has counted rules, and holds them.
func (s *Installation) holds(rules string) {
	s.Policy.Value.Object["status"] = map[string]any{"held": map[string]any{"rules": rules, "nodes": int64(40)}}
}

// What capture has not counted yet may be nothing to accept.
func TestOnlyHeldRulesAreToBeAccepted(t *testing.T) {
	seen := healthy(t)
	seen.setPolicy(onePolicy)
	seen.accepts(map[string]string{store.RulesInForce: "before"})
	remedy := func() []string { return resultOf(t, RunChecks(seen, nil), "label-rules").Findings[0].Commands }
	assert.Equal(t, []string{seen.logsCommand(CaptureDeployment)}, remedy())
	seen.holds(rulesOfOnePolicy(t))
	assert.Equal(t, []string{"nodekeep accept rules " + rulesOfOnePolicy(t) + " --dry-run", "nodekeep accept rules " + rulesOfOnePolicy(t)}, remedy())
}

func TestFindingsOfRulesForLabels(t *testing.T) {
	const single = "label-rules: warning: configmap/nodekeep-accepted: "
	requireFindings(t, map[string]breakage{
		"rules are neither in force nor accepted": {
			func(s *Installation) {
				s.setPolicy(onePolicy)
				s.accepts(map[string]string{store.RulesInForce: "before", store.RulesAccepted: "other"})
				s.holds(rulesOfOnePolicy(t))
			},
			[]string{single + "the rules " + rulesOfOnePolicy(t) + " only add labels, until nodekeep accept rules " + rulesOfOnePolicy(t)},
		},
		"capture has not counted them, but others": {
			func(s *Installation) {
				s.setPolicy(onePolicy)
				s.accepts(map[string]string{store.RulesInForce: "before"})
				s.holds("before")
			},
			[]string{single + "the rules " + rulesOfOnePolicy(t) + " only add labels, until capture has counted ..."},
		},
		"rules were removed from the policy and still count": {
			func(s *Installation) {
				s.accepts(map[string]string{store.RulesInForce: "before"})
			},
			[]string{single + "the policy has no rules, and the labels of earlier rules stay, until capture has counted ..."},
		},
		"rules are accepted": {
			func(s *Installation) {
				s.setPolicy(onePolicy)
				s.accepts(map[string]string{store.RulesInForce: "before", store.RulesAccepted: rulesOfOnePolicy(t)})
			}, nil,
		},
		"rules are in force": {
			func(s *Installation) {
				s.setPolicy(onePolicy)
				s.accepts(map[string]string{store.RulesInForce: rulesOfOnePolicy(t)})
			}, nil,
		},
	})
}

// onePolicy is a policy with a rule for labels.
const onePolicy = policytest.Head + "  labels: {rules: [{name: all, set: {tier: one}}]}\n"

func rulesOfOnePolicy(t *testing.T) string {
	t.Helper()
	loaded, err := policy.Load([]byte(onePolicy), policy.DefaultGate)
	require.NoError(t, err)
	return loaded.RulesHash()
}
