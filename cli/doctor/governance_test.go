package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy/policytest"
)

// governed is a policy that the API server enforces.
const governed = policytest.Head + `  governance: {keys: [{key: example.com/tier, values: [gold, silver], mode: deny}]}
`

// govern puts a policy and the admission policies of its section governance into the cluster.
func govern(t *testing.T, seen *Seen) {
	t.Helper()
	seen.setPolicy(governed)
	inForce, err := seen.InForce()
	require.NoError(t, err)
	objects, err := governance.Objects(inForce.Governance(), seen.Namespace)
	require.NoError(t, err)
	require.Len(t, objects, 2)
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	policies, bindings := make([]admissionregistrationv1.ValidatingAdmissionPolicy, 1), make([]admissionregistrationv1.ValidatingAdmissionPolicyBinding, 1)
	require.NoError(t, convert(objects[0], &policies[0]))
	require.NoError(t, convert(objects[1], &bindings[0]))
	seen.Policies, seen.Bindings = Found(policies), Found(bindings)
}

func TestFindingsOfTheAdmissionPoliciesOfGovernance(t *testing.T) {
	const object = "validatingadmissionpolicy/" + governance.DenyPolicy
	const binding = "validatingadmissionpolicybinding/" + governance.DenyPolicy
	requireFindings(t, map[string]breakage{
		"they are as the policy says": {func(s *Seen) { govern(t, s) }, nil},
		"they are missing": {
			func(s *Seen) { s.setPolicy(governed) },
			[]string{
				"governance: warning: " + object + ": does not exist: " + ungoverned,
				"governance: warning: " + binding + ": does not exist: " + ungoverned,
			},
		},
		"a binding only warns": {
			func(s *Seen) {
				govern(t, s)
				s.Bindings.Value[0].Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Warn"}
			},
			[]string{"governance: warning: " + binding + ": spec.validationActions is not as the policy says: ..."},
		},
		"an expression was changed": {
			func(s *Seen) {
				govern(t, s)
				s.Policies.Value[0].Spec.Validations[0].Expression = "true"
			},
			[]string{"governance: warning: " + object + ": spec.validations[0].expression is not as the policy says: ..."},
		},
		"they are left from an earlier policy": {
			func(s *Seen) {
				govern(t, s)
				s.setPolicy(policytest.Head)
			},
			[]string{
				"governance: warning: " + object + ": is left from an earlier policy, and still in force",
				"governance: warning: " + binding + ": is left from an earlier policy, and still in force",
			},
		},
	})
}
