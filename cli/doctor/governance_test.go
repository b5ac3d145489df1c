package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestAPolicyWithoutGovernanceIsNamed(t *testing.T) {
	seen := healthy(t)
	says := func() string { return resultOf(t, RunChecks(seen, nil), checkGovernance).Title }
	assert.Equal(t, "the policy has none", says())
	seen.setPolicy(policytest.Head + "  governance: {keys: [{key: tier, values: [gold], mode: warn}]}\n")
	assert.Equal(t, "the API server goes by the section governance of the policy", says())
	seen.Policy = NotKnown[*unstructured.Unstructured](Unknown{Reason: "jane may not get nodepolicies"})
	assert.Equal(t, "what the policy says of it is not known, since the policy cannot be read", says())
}

func TestFindingsOfTheAdmissionPoliciesOfGovernance(t *testing.T) {
	const object = "validatingadmissionpolicy/" + governance.DenyPolicy
	const binding = "validatingadmissionpolicybinding/" + governance.DenyPolicy
	requireFindings(t, map[string]breakage{
		"they are missing": {
			func(s *Installation) { s.remove(object, binding) },
			[]string{
				"governance: warning: " + object + ": it does not exist: " + ungovernedEffect,
				"governance: warning: " + binding + ": it does not exist: " + ungovernedEffect,
			},
		},
		"a binding only warns": {
			func(s *Installation) {
				edit(s, binding, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
					b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Warn"}
				})
			},
			[]string{"governance: warning: " + binding + ": spec.validationActions ..."},
		},
		"an expression was changed": {
			func(s *Installation) {
				edit(s, object, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Spec.Validations[0].Expression = "true" })
			},
			[]string{"governance: warning: " + object + ": spec.validations[0].expression ..."},
		},
	})
}
