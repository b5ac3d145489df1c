package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func newPolicyAcceptCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	dryRun := false
	o.rights = func(c *session, _ []string) []doctor.Right {
		if dryRun {
			return c.acceptRulesRights("get")
		}
		return c.acceptRulesRights("get", "patch", "create")
	}
	command := o.changing(&cobra.Command{
		Use:   "accept HASH [flags]",
		Short: "Let new rules or an inventory remove and change labels on many Nodes",
		Long: `Accept releases rules for labels that are held. New rules are held if they would remove or change labels on
more than one Node in ten. Until an operator accepts them, they only add labels. The Event ChangesHeld and "nodekeep
doctor" show the HASH of these rules.

HASH must name the rules of the policy in the cluster. So nobody accepts rules that have changed since they were
looked at. The command shows on how many Nodes labels would be removed or changed, and asks first. It writes key
` + store.RulesAccepted + ` of ConfigMap ` + store.AcceptedName + `; capture follows within seconds.

HASH can also name a snapshot of an inventory that is held. The Event ChangesHeld and ConfigMap nodekeep-inventory
show it. The command writes key SOURCE.accepted of ConfigMap ` + inventories.InventoryName + `.

In place of HASH, "corrections" lets records remove or revert items on any number of Nodes for an hour. Otherwise
one Node in ten is changed within an hour, and the Event ChangesHeld says that the others wait. It should never
happen. First find out what changed the records. "nodekeep diff NODE" shows what is due on a Node. The command writes
key ` + store.CorrectionsAccepted + ` of ConfigMap ` + store.AcceptedName + `.`,
		Example: `
			# On how many Nodes labels would be removed or changed
			nodekeep policy accept none --dry-run

			# Accept without a question
			nodekeep policy accept none --yes

			# How many Nodes records have corrected in the last hour
			nodekeep policy accept corrections --dry-run`,
		Args: oneArg("the hash of the rules", unchecked),
	}, asks, func(ctx context.Context, c *session, args []string) (*proposal, error) {
		if args[0] == corrections {
			return c.acceptCorrections(ctx, dryRun)
		}
		return c.acceptRules(ctx, args[0], dryRun, false)
	})
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only show on how many Nodes labels would be removed or changed")
	return command
}

// acceptRules plans to accept the rules of the cluster's policy, if hash names them. Set migrates if nothing selects on a label that migrations would
// remove. Set it too if the operator accepts that something does.
func (c *session) acceptRules(ctx context.Context, hash string, dryRun, migrates bool) (*proposal, error) {
	p, err := (&policySource{}).read(ctx, c)
	if err != nil {
		return nil, err
	}
	if accepted, named, err := c.acceptInventory(ctx, p, hash, dryRun); named || err != nil {
		return accepted, err
	}
	state, err := c.GetRulesState(ctx)
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
	c.decideUnder(ctx, p)
	var altered impact.Altered
	for state, err := range c.ListStates(ctx) {
		if err != nil {
			return nil, err
		}
		altered.See(state, c.in)
	}
	if m, finishing := migrationToFinish(p, altered.Renamed); finishing && !migrates && !dryRun {
		return nil, fmt.Errorf("nothing was changed: these rules remove label %s from Nodes, and workloads may select on it. nodekeep migrate new %s=%s checks that and accepts them", m.From, m.From, m.To)
	}
	onNodes := fmt.Sprintf("on %d of %s", altered.Changed, view.Counted(altered.Total, "Node"))
	subject := fmt.Sprintf("Once accepted, %s would remove or change labels %s.", view.RulesNamed(rules), onNodes)
	if dryRun {
		return nil, c.printResult("%s Nothing was changed (dry run).", subject)
	}
	return &proposal{question: subject + "\nAccept that?", fingerprint: altered.Changed, apply: func(ctx context.Context) error {
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
		needed = append(needed, c.ConfigMapRight(verb, store.AcceptedName))
	}
	return needed
}

// writeAccepted notes on exactly the state that was read what is accepted.
func (c *session) writeAccepted(ctx context.Context, state *corev1.ConfigMap, key, accepted string) error {
	configMaps, verb := c.Client.CoreV1().ConfigMaps(c.Namespace), "patch"
	var err error
	if state != nil {
		_, err = configMaps.Patch(ctx, store.AcceptedName, types.MergePatchType, store.PatchOf(state, key, accepted), metav1.PatchOptions{})
	} else {
		verb = "create"
		data := map[string]string{store.RulesInForce: policy.NoRules, key: accepted}
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedName, Namespace: c.Namespace}, Data: data}, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		return store.ErrConflict // capture was faster: the plan is made again
	}
	return c.failedWrite(c.RecordsRight(verb), "ConfigMap "+store.AcceptedName, err)
}

// acceptInventory plans to accept the snapshot of a source that is held; named shows that hash names one.
func (c *session) acceptInventory(ctx context.Context, p policy.Policy, hash string, dryRun bool) (_ *proposal, named bool, err error) {
	if len(p.Inventory()) == 0 {
		return nil, false, nil
	}
	state, err := c.GetInventoryState(ctx)
	if err != nil || state == nil {
		return nil, false, err
	}
	for _, source := range p.Inventory() {
		note, ok := inventories.InventoryNoteOf(state, source.Name)
		if !ok || note.Held != hash {
			continue
		}
		subject := fmt.Sprintf("Once accepted, inventory %s would remove or change labels on %d of %s that live.", source.Name, note.Change.Altered, view.Counted(note.Change.Nodes, "Node"))
		if lost := note.Change.Lost; lost > 0 {
			subject += fmt.Sprintf(" It no longer lists %d of %s.", lost, view.Counted(note.Change.Listed, "Node"))
		}
		apply := func(ctx context.Context) error {
			_, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Patch(ctx, inventories.InventoryName, types.MergePatchType,
				store.PatchOf(state, inventories.AcceptedKey(source.Name), hash), metav1.PatchOptions{})
			if err := c.failedWrite(c.RecordsRight("patch"), "ConfigMap "+inventories.InventoryName, err); err != nil {
				return err
			}
			return c.doneForCapture(ctx, "inventory %s: snapshot %s accepted; capture follows within seconds", source.Name, hash)
		}
		switch {
		case note.Accepted():
			return nil, true, c.doneForCapture(ctx, "inventory %s: snapshot %s was accepted before; capture has still to carry it out", source.Name, hash)
		case dryRun:
			return nil, true, c.printResult("%s Nothing was changed (dry run).", subject)
		}
		return &proposal{question: subject + "\nAccept it?", fingerprint: note, apply: apply}, true, nil
	}
	return nil, false, nil
}
