package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/verify"
)

// awaitCapture waits, up to captureTimeout, until capture has lifted the gates itself, since capture completes Nodes first.
func (u *uninstallRun) awaitCapture(ctx context.Context) error {
	gated, err := u.nodesToFree(ctx, u.gateRemoval(time.Time{}))
	if err != nil || len(gated) == 0 || u.captureTimeout <= 0 {
		return err
	}
	_ = u.printResult("%s behind the gate; capture has %s to complete and free them", view.Counted(len(gated), "Node"), u.captureTimeout)
	_ = wait.PollUntilContextTimeout(ctx, time.Second, u.captureTimeout, false, func(ctx context.Context) (bool, error) {
		gated = slices.DeleteFunc(gated, func(name string) bool {
			node, err := u.GetNode(ctx, name)
			return err == nil && (node == nil || !u.gate.Present(node.Spec.Taints))
		})
		return len(gated) == 0, nil
	})
	return ctx.Err()
}

// nodesToFree reads all Nodes and returns the names of those that need a change.
func (o *nodeOpener) nodesToFree(ctx context.Context, removal taintRemoval) (names []string, err error) {
	for node, err := range o.ListNodes(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		if _, needed := removal.planFor(node); needed {
			names = append(names, node.Name)
		}
	}
	return names, nil
}

// taintRemoval removes one kind of taint from Nodes.
type taintRemoval struct {
	step      string // what an error says was tried
	remaining string // what an error says of Nodes that still have the taint
	key       string // of the taint
	planFor   func(*corev1.Node) (change plan.Plan, ok bool)
	doneText  func(*corev1.Node) string // reports the change
}

func (o *nodeOpener) gateRemoval(stopped time.Time) taintRemoval {
	return taintRemoval{
		step: "lift gate", remaining: "behind the gate", key: string(o.gate),
		planFor: func(node *corev1.Node) (plan.Plan, bool) {
			return plan.Plan{Edits: plan.LiftGate(o.gate), ByClient: true}, o.gate.Present(node.Spec.Taints)
		},
		doneText: func(node *corev1.Node) string {
			if createdAfter(node, stopped) {
				return "gate lifted. The Node registered after gating had stopped, so its kubelet (--register-with-taints) or its provisioner (startupTaints) adds it"
			}
			return "gate lifted"
		},
	}
}

func verificationTaints(keys []string) taintRemoval {
	return taintRemoval{
		step: "remove verification taint", remaining: "with a verification taint", key: keys[0],
		planFor: func(node *corev1.Node) (plan.Plan, bool) {
			taints := withKeys(node.Spec.Taints, keys)
			return removeTaintsPlan(taints), len(taints) > 0
		},
		doneText: func(*corev1.Node) string { return "verification taint removed" },
	}
}

// free changes Nodes and returns how many. One that fails does not keep the others from it.
func (o *nodeOpener) free(ctx context.Context, names []string, removal taintRemoval) (freed int, err error) {
	var (
		group errgroup.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(maxParallelChanges)
	for _, name := range names {
		group.Go(func() error {
			node, err := o.changeNode(ctx, name, removal.planFor)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s of node %q: %w", removal.step, name, err))
			case node != nil:
				freed++
				_ = o.printResult("node %s: %s", name, removal.doneText(node))
			}
			return nil
		})
	}
	if _ = group.Wait(); len(errs) == 0 {
		return freed, nil
	}
	return freed, fmt.Errorf("%s %s still: run this again, or kubectl taint node NODE %s-: %w", view.Counted(len(errs), "Node"), removal.remaining, removal.key, errors.Join(errs...))
}

// freeUnverified removes the verification taints of all Nodes.
func (o *nodeOpener) freeUnverified(ctx context.Context) error {
	keys, err := o.verificationKeys(ctx)
	if err != nil {
		return err
	}
	unverified, err := o.nodesToFree(ctx, verificationTaints(keys))
	if err != nil {
		return err
	}
	_, err = o.free(ctx, unverified, verificationTaints(keys))
	return err
}

// changeNode changes one Node and returns it as it was. It returns nil if the Node is already deleted, or if no change is needed.
func (o *nodeOpener) changeNode(ctx context.Context, name string, planFor func(*corev1.Node) (plan.Plan, bool)) (changed *corev1.Node, err error) {
	err = change(ctx, func(ctx context.Context) (*proposal, error) {
		node, err := o.GetNode(ctx, name)
		if err != nil || node == nil {
			return nil, err
		}
		wanted, ok := planFor(node)
		if !ok {
			return nil, nil
		}
		return &proposal{apply: func(ctx context.Context) error {
			err := o.patchNode(ctx, observe.FromNode(node), wanted, metav1.PatchOptions{FieldManager: o.manager})
			if err == nil {
				changed = node
			}
			return err
		}}, nil
	}, nil)
	return changed, err
}

// createdAfter reports whether a Node was created with the gate after gating had stopped. Both times are by the clock of the API server. Such a Node gets the
// gate from its kubelet or its provisioner.
func createdAfter(node *corev1.Node, stopped time.Time) bool {
	return !stopped.IsZero() && node.CreationTimestamp.After(stopped)
}

// verificationKeys returns the keys of the taints that keep workloads off a Node until it is verified. They are the keys of the policy in force and the
// default key, which a deleted profile may have left.
func (o *nodeOpener) verificationKeys(ctx context.Context) (keys []string, err error) {
	keys = []string{verify.Taint}
	inForce, err := o.GetPolicyInForce(ctx, o.gate)
	if err != nil {
		return nil, err
	}
	if inForce.Problem != nil && inForce.AcceptedKey == "" && !inForce.Default() {
		if err := o.printResult("%v: %s. So only taints with the key %s are removed", inForce.Problem, view.InForceInstead(inForce), verify.Taint); err != nil {
			return nil, err
		}
	}
	for _, taint := range inForce.Policy.Verify().Taints() {
		keys = append(keys, taint.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// withKeys returns the taints with these keys.
func withKeys(taints []corev1.Taint, keys []string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return !slices.Contains(keys, taint.Key) })
}

// removeTaintsPlan returns the change that removes taints, at whatever time they were added.
func removeTaintsPlan(taints []corev1.Taint) plan.Plan {
	return plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, true, taints...), ByClient: true}
}
