package doctor

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"nodekeep.dev/nodekeep/governance"
)

func TestFindingsOfTheAdmissionPoliciesOfGovernance(t *testing.T) {
	const object = "validatingadmissionpolicy/" + governance.DenyPolicy
	const binding = "validatingadmissionpolicybinding/" + governance.DenyPolicy
	requireFindings(t, map[string]breakage{
		"they are missing": {
			func(s *Seen) { s.remove(object, binding) },
			[]string{
				"governance: warning: " + object + ": it does not exist: " + ungoverned,
				"governance: warning: " + binding + ": it does not exist: " + ungoverned,
			},
		},
		"a binding only warns": {
			func(s *Seen) {
				edit(s, binding, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
					b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Warn"}
				})
			},
			[]string{"governance: warning: " + binding + ": spec.validationActions ..."},
		},
		"an expression was changed": {
			func(s *Seen) {
				edit(s, object, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Spec.Validations[0].Expression = "true" })
			},
			[]string{"governance: warning: " + object + ": spec.validations[0].expression ..."},
		},
	})
}
