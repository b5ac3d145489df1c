package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

// adoptManager owns the annotation that hands labels over.
const adoptManager = "nodekeep-adopt"

func newRulesCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newGroupCommand(&cobra.Command{
		Use:     "rules",
		Short:   "Hand labels that operators set over to rules",
		GroupID: groupAct,
	}, newRulesAdoptCommand(streams))
}

func newRulesAdoptCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	var rule string
	dryRun := false
	o.rights = func(c *session, _ []string) []doctor.Right {
		needed := c.acceptRulesRights("get")
		if !dryRun {
			needed = slices.Concat(needed, c.allNodesRights("get"), c.allNodesRights("patch"), []doctor.Right{c.RecordsRight("create")})
		}
		return needed
	}
	command := o.command(&cobra.Command{
		Use:   "adopt KEY [flags]",
		Short: "Hand a label that operators set over to the rule that sets the same",
		Long: `Adopt hands the label KEY over to the rules of the policy. It does so on Nodes where an operator or a job has
set exactly the value that a rule derives. From then on the label is the rule's: it changes with the rule, and is
removed with it. A label with another value is listed and left alone, and the exit code is 1 then.

It shows what it would do and asks first. No label changes. On each Node it writes the annotation ` + policy.LabelsAnnotation + `,
with your rights, and then the record, as capture would. If it is interrupted, capture completes the Nodes whose
annotation is written; run it again for the others. The rules must be in force.`,
		Example: `
			# What would be handed over
			nodekeep rules adopt hardware.tier --dry-run

			# Hand it over without a question
			nodekeep rules adopt hardware.tier --yes`,
		Args: oneArg("the key of one label", checkLabelKey),
	}, prints|asks, func(ctx context.Context, c *session, args []string) error {
		if err := c.requireRules(ctx, args[0], rule); err != nil {
			return err
		}
		plan := impact.Adoption{Key: args[0]}
		for state, err := range c.ListStates(ctx) {
			if err != nil {
				return err
			}
			plan.See(state, rule, c.in)
		}
		if err := o.write(c, "RulesAdoption", view.Adoption{Adoption: plan}); err != nil {
			return err
		}
		switch {
		case len(plan.Adopt) == 0:
			c.say("No label is to be handed over.")
		case dryRun:
			c.say("Label %s would be handed over on %s; nothing was changed (dry run).", plan.Key, view.Counted(len(plan.Adopt), "Node"))
		default:
			if err := o.ask(ctx, c, fmt.Sprintf("Hand label %s over on %s?", plan.Key, view.Counted(len(plan.Adopt), "Node"))); err != nil {
				return err
			}
			if err := c.adopt(ctx, plan); err != nil {
				return err
			}
		}
		if len(plan.Left) > 0 {
			return findings(fmt.Errorf("label %s is left alone on %s", plan.Key, view.Counted(len(plan.Left), "Node")))
		}
		return nil
	})
	command.Flags().StringVar(&rule, "rule", "", "hand over only what this rule derives")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be handed over")
	return command
}

// requireRules reads the rules of the cluster's policy, which must be in force and set the label. If capture had other rules, it would remove the
// labels that are handed over.
func (c *session) requireRules(ctx context.Context, key, rule string) error {
	p, err := (&policySource{}).read(ctx, c)
	if err != nil {
		return err
	}
	rules := p.LabelRules().SetBy(key)
	switch {
	case len(rules) == 0:
		return fmt.Errorf("no rule of the policy in the cluster sets label %s", key)
	case rule != "" && !slices.Contains(rules, rule):
		return fmt.Errorf("rule %q of the policy in the cluster does not set label %s; these do: %s", rule, key, strings.Join(rules, ", "))
	}
	state, err := c.GetRulesState(ctx)
	switch {
	case err != nil:
		return err
	case cluster.RulesInForce(state) != p.RulesHash():
		return fmt.Errorf("nothing was changed: the rules of the policy in the cluster (%s) are not in force. capture puts them in force within a minute; if it holds them: nodekeep policy accept %s", p.RulesHash(), p.RulesHash())
	}
	c.decideUnder(ctx, p)
	return nil
}

// adopt hands labels over, and reports on how many Nodes.
func (c *session) adopt(ctx context.Context, plan impact.Adoption) error {
	adopted, changed := 0, 0
	err := changeEach(ctx, plan.Adopt, func(label impact.AdoptedLabel) (done bool, err error) {
		if done, err = c.adoptOne(ctx, plan.Key, label); err != nil {
			err = fmt.Errorf("node %s: %w", label.Node, err)
		}
		return done, err
	}, func(done bool, err error) {
		switch {
		case err != nil:
		case done:
			adopted++
		default:
			changed++
		}
	})
	all := len(plan.Adopt)
	switch {
	case err != nil && adopted == 0:
		return err
	case err != nil:
		return findings(fmt.Errorf("label %s was handed over on %d of %d Nodes, then: %w\n  run it again for the others", plan.Key, adopted, all, err))
	case adopted+changed < all:
		return exitError{exitInterrupted, fmt.Errorf("interrupted: label %s was handed over on %d of %d Nodes; run it again for the others", plan.Key, adopted, all)}
	}
	c.say("Label %s: handed over on %s.", plan.Key, view.Counted(adopted, "Node"))
	if changed > 0 {
		return findings(fmt.Errorf("%s changed since the plan was made and were left alone; run it again to see how", view.Counted(changed, "Node")))
	}
	return nil
}

// adoptOne writes the annotation and then the record. Nothing is lost between the two writes. The annotation shows every process that the record must
// forget who set the label. It returns done as false if the Node is no longer as planned.
func (c *session) adoptOne(ctx context.Context, key string, label impact.AdoptedLabel) (done bool, err error) {
	err = change(ctx, func(ctx context.Context) (*proposal, error) {
		state, err := c.GetState(ctx, label.Node)
		if err != nil {
			return nil, err
		}
		current, adopted := impact.Adopts(state, key, label.Rule, c.in)
		if done = done || adopted; current == nil || *current != label {
			return nil, nil
		}
		return &proposal{apply: func(ctx context.Context) error {
			node := observe.OfKeeping(state.Node, c.in.Policy.Annotations())
			err := c.patchNode(ctx, node, impact.AdoptingChange(node, label, key), metav1.PatchOptions{FieldManager: adoptManager})
			done = done || err == nil
			return err
		}}, nil
	}, nil)
	if err != nil || !done {
		return done, err
	}
	return true, change(ctx, func(ctx context.Context) (*proposal, error) {
		state, err := c.GetState(ctx, label.Node)
		if err != nil || state.Node == nil || state.Unreadable != nil {
			return nil, err // the last state of the Node says it, too
		}
		next := state.NextRecord(c.in)
		if next == nil {
			return nil, nil // capture was faster
		}
		return &proposal{apply: func(ctx context.Context) error { return c.put(ctx, *next, state.Entry.Version) }}, nil
	}, nil)
}
