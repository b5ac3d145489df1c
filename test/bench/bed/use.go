package bed

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deletions is the path at which nodekeep's webhook sees Nodes that are about to be deleted.
const deletions Answerer = "/deletion"

// settles bounds the wait until a change of the API server's configuration is in effect.
const settles = time.Minute

// Use has the API server answer CREATEs as a variant says, and returns when it does. DELETEs are seen by nobody.
func (b *Bed) Use(ctx context.Context, v Variant) error {
	if err := b.dropHooks(ctx); err != nil {
		return err
	}
	if err := b.setGate(ctx, v.Gate); err != nil {
		return err
	}
	if err := b.setGuards(ctx, v.Guards); err != nil {
		return err
	}
	if err := b.settle(ctx, Variant{Gate: v.Gate}); err != nil {
		return err
	}
	if v.Answerer == Nobody {
		return nil
	}
	config, err := b.clientConfig(ctx, v)
	if err != nil {
		return err
	}
	hook := restoreHook(config)
	if _, err := b.Admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, hook, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("configure webhook: %w", err)
	}
	return b.settle(ctx, v)
}

// Install has the API server use nodekeep as it is shipped. This is the gate, the guard policies, and the webhook at CREATE and at DELETE.
func (b *Bed) Install(ctx context.Context) error {
	if err := b.Use(ctx, Variant{Answerer: Nodekeep, Gate: true, Guards: true}); err != nil {
		return err
	}
	config, err := b.clientConfig(ctx, Variant{Answerer: deletions})
	if err != nil {
		return err
	}
	hook := captureHook(config)
	if _, err := b.Admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hook, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("configure webhook for deletions: %w", err)
	}
	return nil
}

// setGate puts the shipped gate policy in force, or out of it by taking its binding away.
func (b *Bed) setGate(ctx context.Context, on bool) error {
	if b.gated == on {
		return nil
	}
	b.gated = on
	if on {
		return b.nodekeep.GateOn(ctx)
	}
	err := b.Admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Delete(ctx, "nodekeep-gate", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete binding of gate policy: %w", err)
	}
	return nil
}

// setGuards puts the shipped guard policies in force, or deletes them.
func (b *Bed) setGuards(ctx context.Context, on bool) error {
	if b.guarded == on {
		return nil
	}
	b.guarded = on
	if on {
		return b.nodekeep.GuardsOn(ctx)
	}
	return b.nodekeep.GuardsOff(ctx)
}

// settle waits until a kubelet's dry-run CREATE is answered as the variant says.
func (b *Bed) settle(ctx context.Context, v Variant) error {
	v.Recorded = false // there is no record of the probe
	var last error
	err := Await(ctx, settles, Look, func(ctx context.Context) (bool, error) {
		last = b.probe(ctx, v)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server goes by %q: %w: %w", v.Name, err, last)
	}
	return nil
}

func (b *Bed) probe(ctx context.Context, v Variant) error {
	const name = "bench-probe"
	before, err := b.reference.served(ctx)
	if err != nil {
		return err
	}
	node, err := b.Kubelets.CoreV1().Nodes().Create(AsKubelet(ctx, name), b.Registration(name), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("create probe: %w", err)
	}
	after, err := b.reference.served(ctx)
	if err != nil {
		return err
	}
	// That the no-op webhook is called can be seen in no Node.
	if called, want := after > before, v.Answerer == Noop || v.Answerer == Mark || v.Answerer == Labels; called != want {
		return fmt.Errorf("that a reference webhook is called is %t", called)
	}
	return v.Check(node)
}
