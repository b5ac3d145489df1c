package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/governance"
)

func newGovernanceCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newGroupCommand(&cobra.Command{
		Use:     "governance",
		Short:   "Render the admission policies that govern labels",
		GroupID: groupSee,
	}, newGovernanceRenderCommand(streams))
}

func newGovernanceRenderCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	command := o.command(&cobra.Command{
		Use:   "render [flags]",
		Short: "The admission policies of the section governance, as YAML",
		Long: `Render prints the ValidatingAdmissionPolicies of the section governance of the policy, and their bindings.
There is one for each mode that is used. With --policy it reads a file and asks no cluster. Without it, it reads the
policy of the cluster. The chart renders the same objects from the same section. So an installation by Helm does not
need this command.

The API server goes by the objects once they are applied. Nothing is changed by this command.`,
		Example: `
			# Without Helm: put the rules of the cluster's policy in force
			nodekeep governance render | kubectl apply --server-side -f -

			# Of a file
			nodekeep governance render --policy policy.yaml`,
	}, decides, func(_ context.Context, c *cluster, _ []string) error {
		text, err := governance.Render(c.in.Policy.Governance(), *o.flags.Namespace)
		if err != nil {
			return err
		}
		if text == "" {
			return findings(errors.New("the policy has no rule that the API server can enforce"))
		}
		_, err = fmt.Fprint(c.Out, text)
		return err
	})
	o.validate = func() error {
		o.offline = o.policy.file != ""
		return checkNamespace("--namespace", *o.flags.Namespace)
	}
	return command
}
