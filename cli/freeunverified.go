package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// verificationKeys are the keys of the taints that keep workloads off a Node until it is verified. They are the keys of the policy and the default
// key, which a deleted profile may have left. A policy that cannot be read has none.
func (u *uninstalling) verificationKeys(ctx context.Context) (keys []string, err error) {
	keys = []string{verify.Taint}
	data, found, err := u.configMap(ctx, policyConfigMap)
	if err != nil || !found {
		return keys, err
	}
	inForce, err := policy.Load([]byte(data[policyKey]), u.gate)
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
		if len(without(node.Spec.Taints, keys)) == len(node.Spec.Taints) {
			continue
		}
		if err := u.unverify(ctx, node.Name, keys); err != nil {
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

// unverify removes the verification taints of one Node, in the state that was read.
func (u *uninstalling) unverify(ctx context.Context, name string, keys []string) error {
	return change(ctx, func(ctx context.Context) (*plan, error) {
		node, err := u.node(ctx, name)
		if err != nil || node == nil || len(without(node.Spec.Taints, keys)) == len(node.Spec.Taints) {
			return nil, err
		}
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
			"spec":     map[string]any{"taints": without(node.Spec.Taints, keys)},
		})
		if err != nil {
			return nil, err
		}
		return &plan{do: func(ctx context.Context) error {
			_, err := u.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "nodekeep-uninstall"})
			return u.failedWrite(u.toNodes("patch"), "Node "+name, err)
		}}, nil
	}, nil)
}

// without are the taints with other keys.
func without(taints []corev1.Taint, keys []string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return slices.Contains(keys, taint.Key) })
}
