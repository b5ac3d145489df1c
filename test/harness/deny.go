package harness

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Denial is an admission policy of the cluster, as another team may have it: what it denies of Nodes.
type Denial struct {
	Operation admissionregistrationv1.OperationType
	Condition string // a CEL expression; empty: always
	Exception string // a CEL expression
	Message   string
}

// Deny has the API server deny requests until lift is called, or the test ends. The caller's denied reports whether a dry-run request is denied: Deny
// and lift return once the change is in effect.
func (i *Installation) Deny(t testing.TB, name string, d Denial, denied func() bool) (lift func()) {
	t.Helper()
	api := i.Admin.AdmissionregistrationV1()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{d.Operation},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: d.Exception, Message: d.Message}},
		},
	}
	if d.Condition != "" {
		policy.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "when", Expression: d.Condition}}
	}
	_, err := api.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	lift = sync.OnceFunc(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}))
		require.NoError(t, api.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
		require.Eventually(t, func() bool { return !denied() }, Settles, 50*time.Millisecond, "the policy must no longer be in force")
	})
	t.Cleanup(lift)
	require.Eventually(t, denied, Settles, 50*time.Millisecond, "the policy must come into force")
	return lift
}
