package bed

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// Govern makes these keys and reserved patterns the section governance of the policy. The admission policies read them; their bindings are those of [Bed.Enforce].
func (b *Bed) Govern(ctx context.Context, settings governance.Settings) {
	encoded, err := json.Marshal(map[string]any{"keys": settings.Keys, "reserved": settings.Reserved})
	require.NoError(b, err)
	b.SetPolicy(ctx, policytest.Manifest("governance: "+string(encoded)+"\n"))
}

// bind leaves the bindings of these admission policies of governance, and deletes those of the others.
func (b *Bed) bind(ctx context.Context, policies ...string) {
	bindings := b.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for _, name := range governance.PolicyNames() {
		require.NoError(b, ignoreNotFound(bindings.Delete(ctx, name, metav1.DeleteOptions{})))
	}
	for _, name := range policies {
		action := admissionregistrationv1.Audit
		if name == governance.DenyPolicy {
			action = admissionregistrationv1.Deny
		}
		_, err := bindings.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{action},
				ParamRef: &admissionregistrationv1.ParamRef{Name: harness.PolicyName, ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction)},
			},
		}, metav1.CreateOptions{})
		require.NoError(b, err)
	}
}

// Enforce leaves the bindings of these policies. It waits until a label of the Node probe is denied, or no longer is.
func (b *Bed) Enforce(ctx context.Context, probe string, policies ...string) {
	b.bind(ctx, policies...)
	denies := slices.Contains(policies, governance.DenyPolicy)
	b.Wait(ctx, settles, Look, "the API server goes by the bindings", func(ctx context.Context) (bool, error) {
		_, err := b.Admin.CoreV1().Nodes().Patch(ctx, probe, types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/key-0":"not-listed"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err) == denies, nil
	})
	time.Sleep(time.Second) // the other bindings came with that one
}
