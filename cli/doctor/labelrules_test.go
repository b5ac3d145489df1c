package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
)

func TestFindingsOfRulesForLabels(t *testing.T) {
	requireFindings(t, map[string]breakage{
		"rules are neither in force nor accepted": {
			func(s *Seen) {
				s.setPolicy(onePolicy)
				s.accepts(map[string]string{store.RulesInForce: "before", store.RulesAccepted: "other"})
			},
			[]string{"label-rules: warning: configmap/nodekeep-accepted: rules " + rulesOfOnePolicy(t) + " of the policy only add labels: ..."},
		},
		"rules were removed from the policy and still count": {
			func(s *Seen) {
				s.accepts(map[string]string{store.RulesInForce: "before"})
			},
			[]string{"label-rules: warning: configmap/nodekeep-accepted: rules none of the policy only add labels: ..."},
		},
		"rules are accepted": {
			func(s *Seen) {
				s.setPolicy(onePolicy)
				s.accepts(map[string]string{store.RulesInForce: "before", store.RulesAccepted: rulesOfOnePolicy(t)})
			}, nil,
		},
		"rules are in force": {
			func(s *Seen) {
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
