package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// verificationKeys are the keys of the taints that keep workloads off a Node until it is verified. They are the keys of the policy and the default
// key, which a deleted profile may have left. A policy that cannot be read has none.
func (u *uninstalling) verificationKeys(ctx context.Context) (keys []string, err error) {
	keys = []string{verify.Taint}
	found, err := u.policyMap(ctx)
	if err != nil || found == nil {
		return keys, err
	}
	inForce, err := policy.Load([]byte(found.Data[policyKey]), u.gate)
	if err != nil {
		return keys, u.done("ConfigMap %s cannot be read, so only taints with the key %s are removed: %v", policyConfigMap, verify.Taint, err)
	}
	for _, taint := range inForce.Verify().Taints() {
		keys = append(keys, taint.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// freeUnverified removes the verification taints of all Nodes: once nodekeep is deleted, nothing else does. One Node that fails does not keep the
// others from it.
func (u *uninstalling) freeUnverified(ctx context.Context) error {
	keys, err := u.verificationKeys(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for node, err := range u.allNodes(ctx) {
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		unverify := func(node *corev1.Node) (capture.Change, bool) {
			taints := withKeys(node.Spec.Taints, keys)
			return removing(taints), len(taints) > 0
		}
		if _, needed := unverify(node); !needed {
			continue
		}
		if _, err := u.changeNode(ctx, node.Name, unverify); err != nil {
			errs = append(errs, fmt.Errorf("remove verification taint of node %q: %w", node.Name, err))
			continue
		}
		_ = u.done("node %s: verification taint removed", node.Name)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s with a verification taint still: run this again, or kubectl taint node NODE %s-: %w", view.Counted(len(errs), "Node"), keys[0], errors.Join(errs...))
}

// withKeys are the taints with these keys.
func withKeys(taints []corev1.Taint, keys []string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return !slices.Contains(keys, taint.Key) })
}

// removing is the change that removes taints, whenever they were added.
func removing(taints []corev1.Taint) capture.Change {
	change := capture.Change{ByClient: true}
	for _, taint := range taints {
		taint.TimeAdded = nil
		change.RemoveTaints = append(change.RemoveTaints, taint)
	}
	return change
}
