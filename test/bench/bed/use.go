package bed

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/governance"
)

// deletions is the path at which nodekeep's webhook sees Nodes that are about to be deleted.
const deletions Answerer = "/deletion"

// settles bounds the wait until a change of the API server's configuration is in effect.
const settles = time.Minute

// Use has the API server answer CREATEs as a variant says, and returns when it does. DELETEs are seen by nobody.
func (b *Bed) Use(ctx context.Context, v Variant) {
	b.dropHooks(ctx)
	b.setGate(ctx, v.Gate)
	b.setGuards(ctx, v.Guards)
	b.settle(ctx, Variant{Gate: v.Gate})
	if v.Answerer == NoWebhook {
		return
	}
	b.reviewCreates(ctx, v)
	b.settle(ctx, v)
}

// Install has the API server use nodekeep as it is shipped. This is the gate, the guard policies, the policies of governance, and the
// webhook at CREATE and at DELETE.
func (b *Bed) Install(ctx context.Context) {
	b.Use(ctx, Variant{Answerer: Nodekeep, Gate: true, Guards: true})
	b.bind(ctx, governance.PolicyNames()...)
	b.reviewDeletes(ctx)
}

// setGate puts the shipped gate policy in force, or out of it by taking its binding away.
func (b *Bed) setGate(ctx context.Context, enabled bool) {
	if b.gated == enabled {
		return
	}
	b.gated = enabled
	if enabled {
		require.NoError(b, b.nodekeep.GateOn(ctx))
		return
	}
	bindings := b.Admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	require.NoError(b, ignoreNotFound(bindings.Delete(ctx, "nodekeep-gate", metav1.DeleteOptions{})))
}

// setGuards puts the shipped guard policies in force, or deletes them.
func (b *Bed) setGuards(ctx context.Context, enabled bool) {
	if b.guarded == enabled {
		return
	}
	b.guarded = enabled
	if enabled {
		require.NoError(b, b.nodekeep.GuardsOn(ctx))
	} else {
		require.NoError(b, b.nodekeep.GuardsOff(ctx))
	}
}

// settle waits until a kubelet's dry-run CREATE is answered as the variant says.
func (b *Bed) settle(ctx context.Context, v Variant) {
	v.Recorded = false // there is no record of the probe
	var last error
	err := wait.PollUntilContextTimeout(ctx, Look, settles, true, func(ctx context.Context) (bool, error) {
		last = b.probe(ctx, v)
		return last == nil, nil
	})
	require.NoError(b, err, "wait until the API server goes by %q: %v", v.Name, last)
}

func (b *Bed) probe(ctx context.Context, v Variant) error {
	const name = "bench-probe"
	count := b.served(ctx)
	node, err := b.Kubelets.CoreV1().Nodes().Create(AsKubelet(ctx, name), b.Registration(name), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("create probe: %w", err)
	}
	// That the no-op webhook is called can be seen in no Node.
	if called, want := b.served(ctx) > count, v.Answerer == Noop || v.Answerer == Mark || v.Answerer == Labels; called != want {
		return fmt.Errorf("that a reference webhook is called is %t", called)
	}
	return v.Check(node)
}
