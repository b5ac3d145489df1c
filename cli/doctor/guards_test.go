package doctor

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

func TestFindingsOfTheGuardPolicies(t *testing.T) {
	const (
		guard        = "guard-policies: warning: validatingadmissionpolicy/nodekeep-guard: it "
		guardBinding = "guard-policies: warning: validatingadmissionpolicybinding/nodekeep-guard: it "
		strip        = "guard-policies: warning: mutatingadmissionpolicy/nodekeep-strip: it "
		stripBinding = "guard-policies: warning: mutatingadmissionpolicybinding/nodekeep-strip: it "
		absent       = "does not exist: " + forgeable
	)
	fail := admissionregistrationv1.Fail
	requireFindings(t, map[string]breakage{
		"none of them is there": {
			func(s *Seen) {
				s.Guard, s.GuardBinding = Absent[*admissionregistrationv1.ValidatingAdmissionPolicy](), Absent[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]()
				s.Strip, s.StripBinding = Absent[*admissionregistrationv1.MutatingAdmissionPolicy](), Absent[*admissionregistrationv1.MutatingAdmissionPolicyBinding]()
			}, []string{guard + absent, guardBinding + absent, strip + absent, stripBinding + absent},
		},
		"the guard allows all": {
			func(s *Seen) { s.Guard.Value.Spec.Validations[0].Expression = "true" }, []string{guard + "does not have the validations that nodekeep ships: " + forgeable},
		},
		"the guard only warns": {
			func(s *Seen) {
				s.GuardBinding.Value.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
			}, []string{guardBinding + "does not have the validationActions that nodekeep ships: " + forgeable},
		},
		"the strip does nothing": {
			func(s *Seen) { s.Strip.Value.Spec.Mutations = nil }, []string{strip + "does not have the mutations that nodekeep ships: " + forgeable},
		},
		"they fail closed": {
			func(s *Seen) { s.Guard.Value.Spec.FailurePolicy, s.Strip.Value.Spec.FailurePolicy = nil, &fail },
			[]string{
				"guard-policies: error: validatingadmissionpolicy/nodekeep-guard: failurePolicy Fail: an error in the policy keeps kubelets from updating their status",
				"guard-policies: error: mutatingadmissionpolicy/nodekeep-strip: failurePolicy Fail: an error in the policy keeps Nodes from joining",
			},
		},
		"the caller may not read one": {
			func(s *Seen) {
				s.Strip = NotKnown[*admissionregistrationv1.MutatingAdmissionPolicy](Unknown{Why: "you may not", Remedy: Remedy{Text: "Ask."}})
			}, []string{"guard-policies: unknown: mutatingadmissionpolicy/nodekeep-strip: you may not"},
		},
	})
}
