package bed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// Govern writes the admission policies of governance. None is in force before [Bed.Enforce].
func (b *Bed) Govern(ctx context.Context, rules governance.Rules) error {
	text, err := governance.Render(rules, harness.Namespace)
	if err != nil {
		return err
	}
	file := filepath.Join(b.cluster.Dir(), "governance.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if _, err := b.nodekeep.Kubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
		return err
	}
	return b.Enforce(ctx, "")
}

// Enforce leaves the bindings of these policies, and deletes those of the others. With a Node as probe, it waits until a label of that Node is
// denied, or no longer is. Without one, it gives the API server two seconds to notice.
func (b *Bed) Enforce(ctx context.Context, probe string, policies ...string) error {
	bindings := b.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	denies := false
	for _, name := range governance.PolicyNames() {
		if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete binding %s: %w", name, err)
		}
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
		if err != nil {
			return fmt.Errorf("create binding %s: %w", name, err)
		}
	}
	if probe == "" {
		time.Sleep(2 * time.Second)
		return nil
	}
	if err := Await(ctx, settles, Look, func(ctx context.Context) (bool, error) {
		_, err := b.Admin.CoreV1().Nodes().Patch(ctx, probe, types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/key-0":"not-listed"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err) == denies, nil
	}); err != nil {
		return fmt.Errorf("wait until the API server goes by the bindings: %w", err)
	}
	time.Sleep(time.Second) // the other bindings came with that one
	return nil
}

// APIServerCPU is the CPU time that the API server has taken so far.
func (b *Bed) APIServerCPU() (time.Duration, error) {
	usage, err := measure.UsageOf(b.cluster.Process("kube-apiserver").Pid())
	return usage.CPU, err
}
