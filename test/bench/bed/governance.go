package bed

import (
	"context"
	"os"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/test/harness"
)

// Govern applies the admission policies of governance. All are in force until [Bed.Enforce].
func (b *Bed) Govern(ctx context.Context, rules governance.Rules) {
	text, err := governance.Render(rules, harness.Namespace)
	require.NoError(b, err)
	file := b.file("governance.yaml")
	require.NoError(b, os.WriteFile(file, []byte(text), 0o600))
	_, err = b.nodekeep.Kubectl(ctx, "apply", "--server-side", "-f", file)
	require.NoError(b, err)
}

// Enforce leaves the bindings of these policies, and deletes those of the others. It waits until a label of the Node probe is denied, or no longer is.
func (b *Bed) Enforce(ctx context.Context, probe string, policies ...string) {
	bindings := b.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	denies := false
	for _, name := range governance.PolicyNames() {
		require.NoError(b, ignoreNotFound(bindings.Delete(ctx, name, metav1.DeleteOptions{})))
	}
	for _, name := range policies {
		action := admissionregistrationv1.Audit
		if name == governance.DenyPolicy {
			action, denies = admissionregistrationv1.Deny, true
		}
		_, err := bindings.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{action},
			},
		}, metav1.CreateOptions{})
		require.NoError(b, err)
	}
	b.Until(ctx, settles, Look, "the API server goes by the bindings", func(ctx context.Context) (bool, error) {
		_, err := b.Admin.CoreV1().Nodes().Patch(ctx, probe, types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/key-0":"not-listed"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err) == denies, nil
	})
	time.Sleep(time.Second) // the other bindings came with that one
}
