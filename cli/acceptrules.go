package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// acceptRules releases rules that are held.
func (o *acceptOptions) acceptRules(ctx context.Context, c *session, hash string) error {
	var inventoryRights []doctor.Right
	for _, verb := range o.acceptVerbs("patch") {
		inventoryRights = append(inventoryRights, c.ConfigMapRight(verb, inventories.InventoryName))
	}
	return o.change(ctx, c, func(ctx context.Context) (*proposal, error) {
		return c.planAcceptRules(ctx, hash, o.dryRun, inventoryRights)
	})
}

// planAcceptRules plans to accept the rules of the cluster's policy, if hash names them. Without skipOldKeyCheck it refuses rules that would remove the old key of a
// migration: the caller has not checked what selects on that key.
func (c *session) planAcceptRules(ctx context.Context, hash string, skipOldKeyCheck bool, inventoryRights []doctor.Right) (*proposal, error) {
	p, err := (&policySource{}).read(ctx, c)
	if err != nil {
		return nil, err
	}
	if accepted, named, err := c.planAcceptInventory(ctx, p, hash, inventoryRights); named || err != nil {
		return accepted, err
	}
	state, err := c.GetAcceptedConfigMap(ctx)
	if err != nil {
		return nil, err
	}
	inForce, rules := cluster.RulesInForce(state), p.RulesHash()
	switch {
	case hash != rules && rules == inForce:
		return nil, fmt.Errorf("nothing was changed: %q is not the hash of the rules of the policy in the cluster, which is %s, and nothing is held", hash, rules)
	case hash != rules:
		return nil, fmt.Errorf("nothing was changed: %q is not the hash of the rules of the policy in the cluster, which is %s", hash, rules)
	case rules == inForce:
		return nil, c.printResult("Nothing is held: capture goes by %s.", view.RulesNamed(rules))
	case p.AcceptsRules(), state != nil && state.Data[store.RulesAccepted] == rules:
		return nil, c.doneForCapture(ctx, "Accepted before: %s. capture has still to carry it out.", view.RulesNamed(rules))
	}
	c.usePolicy(ctx, p)
	var affected impact.RuleEffects
	for state, err := range c.ListStates(ctx) {
		if err != nil {
			return nil, err
		}
		affected.Add(state, c.inputs)
	}
	if m, finishing := migrationToFinish(p, affected.Renamed); finishing && !skipOldKeyCheck {
		return nil, fmt.Errorf("nothing was changed: these rules remove label %s from Nodes, and workloads may select on it. nodekeep accept migration %s=%s checks that and accepts them", m.From, m.From, m.To)
	}
	onNodes := fmt.Sprintf("on %d of %s", affected.Changed, view.Counted(affected.Total, "Node"))
	subject := fmt.Sprintf("Once accepted, %s would remove or change labels %s.", view.RulesNamed(rules), onNodes)
	return &proposal{summary: subject, question: "Accept that?", fingerprint: affected.Changed, apply: func(ctx context.Context) error {
		if err := c.writeAccepted(ctx, state, store.RulesAccepted, rules); err != nil {
			return err
		}
		return c.doneForCapture(ctx, "Accepted: %s. capture removes or changes labels %s.", view.RulesNamed(rules), onNodes)
	}}, nil
}

// acceptRulesRights returns the rights to look at what the rules of the cluster's policy change, and to accept them.
func (c *session) acceptRulesRights(verbs ...string) []doctor.Right {
	needed := slices.Concat(c.allNodesRights("list"), c.PolicyInForceRights())
	for _, verb := range verbs {
		needed = append(needed, c.ConfigMapRight(verb, store.AcceptedConfigMap))
	}
	return needed
}

// writeAccepted writes into ConfigMap nodekeep-accepted what is accepted, if the ConfigMap is still in the state that was read.
func (c *session) writeAccepted(ctx context.Context, state *corev1.ConfigMap, key, accepted string) error {
	configMaps, verb := c.Client.CoreV1().ConfigMaps(c.Namespace), "patch"
	var err error
	if state != nil {
		_, err = configMaps.Patch(ctx, store.AcceptedConfigMap, types.MergePatchType, store.PatchOf(state, key, accepted), metav1.PatchOptions{})
	} else {
		verb = "create"
		data := map[string]string{store.RulesInForce: policy.NoRules, key: accepted}
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: c.Namespace}, Data: data}, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		return store.ErrConflict // capture was faster: the plan is made again
	}
	return c.explainWriteError(c.RecordsRight(verb), "ConfigMap "+store.AcceptedConfigMap, err)
}
