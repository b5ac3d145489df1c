package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
)

// adoptManager owns the annotation that hands labels over.
const adoptManager = "nodekeep-adopt"

func (o *acceptOptions) adoptionRights(c *session, _ string) []doctor.Right {
	needed := c.acceptRulesRights("get")
	if !o.dryRun {
		needed = slices.Concat(needed, c.allNodesRights("get"), c.allNodesRights("patch"), []doctor.Right{c.RecordsRight("create")})
	}
	return needed
}

// acceptAdoption hands a label that operators set over to the rule that sets the same.
func (o *acceptOptions) acceptAdoption(ctx context.Context, c *session, key string) error {
	if err := c.requireAdoptionRules(ctx, key, o.rule); err != nil {
		return err
	}
	plan := impact.Adoption{Key: key}
	for state, err := range c.ListStates(ctx) {
		if err != nil {
			return err
		}
		plan.Add(state, o.rule, c.inputs)
	}
	p := &proposal{document: view.Adoption{Adoption: plan}.Document(c.Now()), question: fmt.Sprintf("Hand label %s over on %s?", plan.Key, view.Counted(len(plan.Adopt), "Node"))}
	if len(plan.Adopt) == 0 && !o.dryRun {
		if err := p.show(c.ErrOut, p.document); err != nil {
			return err
		}
		c.say("No label is to be handed over.")
	} else if proceed, err := o.confirm(ctx, c, p); err != nil {
		return err
	} else if proceed {
		if err := c.adopt(ctx, plan); err != nil {
			return err
		}
	}
	if len(plan.Left) > 0 {
		return asFindings(fmt.Errorf("label %s is left alone on %s", plan.Key, view.Counted(len(plan.Left), "Node")))
	}
	return nil
}

// requireAdoptionRules reads the rules of the cluster's policy, which must be in force and set the label. If capture had other rules, it would remove the
// labels that are handed over.
func (c *session) requireAdoptionRules(ctx context.Context, key, rule string) error {
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
	state, err := c.GetAcceptedConfigMap(ctx)
	switch {
	case err != nil:
		return err
	case cluster.RulesInForce(state) != p.RulesHash():
		return fmt.Errorf("nothing was changed: the rules of the policy in the cluster (%s) are not in force. capture puts them in force within a minute; if it holds them: nodekeep accept rules %s", p.RulesHash(), p.RulesHash())
	}
	c.usePolicy(ctx, p)
	return nil
}

// adopt hands labels over, and reports on how many Nodes.
func (c *session) adopt(ctx context.Context, plan impact.Adoption) error {
	adopted, skipped := 0, 0
	err := changeInParallel(ctx, plan.Adopt, func(label impact.AdoptedLabel) (done bool, err error) {
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
			skipped++
		}
	})
	all := len(plan.Adopt)
	switch {
	case err != nil && adopted == 0:
		return err
	case err != nil:
		return asFindings(fmt.Errorf("label %s was handed over on %d of %d Nodes, then: %w\n  run it again for the others", plan.Key, adopted, all, err))
	case adopted+skipped < all:
		return exitError{exitInterrupted, fmt.Errorf("interrupted: label %s was handed over on %d of %d Nodes; run it again for the others", plan.Key, adopted, all)}
	}
	if err := c.printResult("Label %s: handed over on %s.", plan.Key, view.Counted(adopted, "Node")); err != nil {
		return err
	}
	if skipped > 0 {
		return asFindings(fmt.Errorf("%s changed since the plan was made and were left alone; run it again to see how", view.Counted(skipped, "Node")))
	}
	return nil
}

// adoptOne writes the annotation and then the record. Any capture that reads the annotation completes the record, so an interruption between the two
// writes loses nothing. It returns done as false if the Node is no longer as planned.
func (c *session) adoptOne(ctx context.Context, key string, label impact.AdoptedLabel) (done bool, err error) {
	err = change(ctx, func(ctx context.Context) (*proposal, error) {
		state, err := c.GetState(ctx, label.Node)
		if err != nil {
			return nil, err
		}
		current, alreadyDerived := impact.PlanAdoption(state, key, label.Rule, c.inputs)
		if done = done || alreadyDerived; current == nil || *current != label {
			return nil, nil
		}
		return &proposal{apply: func(ctx context.Context) error {
			node := observe.FromNodeWithAnnotations(state.Node, c.inputs.Policy.Annotations())
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
			return nil, err // the Node is deleted, or its record cannot be read: capture completes the record later
		}
		next := state.NextRecord(c.inputs)
		if next == nil {
			return nil, nil // capture was faster
		}
		return &proposal{apply: func(ctx context.Context) error { return c.writeRecord(ctx, *next, state.StoreEntry.Version) }}, nil
	}, nil)
}
