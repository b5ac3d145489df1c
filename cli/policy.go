package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

func newPolicyCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newGroupCommand(&cobra.Command{
		Use:     "policy",
		Short:   "Check a policy file, and see what it would change",
		GroupID: groupSee,
	}, newPolicyCheckCommand(streams))
}

// policyCheckOptions are the flags of `policy check`; its --policy is the one to compare with.
type policyCheckOptions struct {
	*options
	againstCluster bool
}

func newPolicyCheckCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &policyCheckOptions{options: newOptions(streams)}
	command := newCommand(&cobra.Command{
		Use:   "check FILE [flags]",
		Short: "All mistakes in a policy file at once, and what it would change in this cluster",
		Long: `Check reads a policy file, "-" for stdin, just as the processes do, and names every mistake with its line and field; with one, the
exit code is 2.

With --against-cluster it goes on to look at every Node and every record and says what this policy would change beside the one
in force: which labels and taints would be kept or no longer kept, what would become of remembered ones when their Nodes
register again (restored in the CREATE, behind the gate, or not), which taints rules would add and remove, and
how many records of Nodes that are gone would be collected. Changes are counted; the first of the Nodes are named with -o
wide. Nothing is changed.

A key that a policy no longer keeps stays remembered and is not restored. What is collected is forgotten.`,
		Example: `
			# Mistakes in a file
			nodekeep policy check policy.yaml

			# What it would change in this cluster
			nodekeep policy check policy.yaml --against-cluster

			# Whether the policy of the cluster itself is valid
			kubectl -n nodekeep-system get configmap nodekeep-policy -o jsonpath='{.data.policy\.yaml}' | nodekeep policy check -

			# For scripts: how many records would be collected
			nodekeep policy check policy.yaml --against-cluster -o jsonpath='{.impact.due.then}'`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s takes one policy file, or - for stdin, and was given %d arguments", command.CommandPath(), len(args))
			}
			return nil
		},
	}, o.connection, o.run)
	command.Flags().BoolVar(&o.againstCluster, "against-cluster", false, "say what it would change for the Nodes of this cluster")
	o.addTo(command, prints|decides)
	return command
}

func (o *policyCheckOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	gate, err := o.policy.flag()
	switch {
	case err != nil:
		return err
	case o.policy.file != "" && !o.againstCluster:
		return usage(errors.New("--policy says what to compare with: it goes with --against-cluster"))
	}
	content, err := readFile(args[0], o.In)
	if err != nil {
		return usage(fmt.Errorf("read policy: %w", err))
	}
	check := view.PolicyCheck{File: args[0]}
	if args[0] == "-" {
		check.File = "stdin"
	}
	if _, err = policy.Load(content, cmp.Or(gate, policy.DefaultGate)); errors.As(err, &check.Mistakes) {
		return o.wrong(check)
	} else if err != nil {
		return usage(err)
	}
	c := &cluster{IOStreams: o.IOStreams, now: time.Now}
	if check.Valid = true; o.againstCluster {
		if c, err = o.begin(ctx, decides); err != nil {
			return err
		}
		if check.Impact, err = c.compare(ctx, content); err != nil {
			return err
		}
		check.ComparedWith = cmp.Or(o.policy.file, fmt.Sprintf("the policy of the cluster (ConfigMap %s in namespace %s)", policyConfigMap, c.namespace))
	}
	return o.write(c, "PolicyCheck", check)
}

// wrong reports the errors in a policy file.
func (o *policyCheckOptions) wrong(check view.PolicyCheck) error {
	if o.table() {
		for _, mistake := range check.Mistakes {
			if _, err := fmt.Fprintln(o.Out, mistake.At(check.File)); err != nil {
				return err
			}
		}
	} else if err := o.object(o.Out, "PolicyCheck", check); err != nil {
		return err
	}
	return usage(fmt.Errorf("%s cannot be used as a policy: %s", check.File, view.Counted(len(check.Mistakes), "mistake")))
}

// compare goes through every Node and every record.
func (c *cluster) compare(ctx context.Context, content []byte) (*view.Impact, error) {
	then, err := policy.Load(content, c.in.Policy.Gate())
	if err != nil { // with another gate it was valid
		return nil, usage(fmt.Errorf("with the gate %s: %w", c.in.Policy.Gate(), err))
	}
	comparison := view.NewComparison(c.in, then)
	for state, err := range c.allStates(ctx) {
		if err != nil {
			return nil, err
		}
		if err := comparison.See(state); err != nil {
			return nil, err
		}
	}
	impact := comparison.Impact()
	return &impact, nil
}
