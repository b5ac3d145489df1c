package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/view"
)

func newDiffCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newNodeOptions(streams)
	return o.command(&cobra.Command{
		Use:   "diff NODE [flags]",
		Short: "How the record of a Node differs from the live Node",
		Long: `Diff compares what is remembered of a Node with the live Node, and lists what capture has still to record or to restore. What is
remembered and, for a reason, not shown on the Node is listed, but is no difference. It exits with 1 if there are differences.`,
		Example: `
			# Is everything recorded, and everything restored?
			nodekeep diff worker-1

			# Under another policy
			nodekeep diff worker-1 --policy policy.yaml`,
		GroupID: groupSee,
	}, func(ctx context.Context, args []string) error {
		c, in, err := o.begin(ctx)
		if err != nil {
			return err
		}
		state, err := c.live(ctx, args[0])
		if err != nil {
			return err
		}
		difference := view.Diff(state, in)
		if err := o.write(c, "NodeDifference", difference); err != nil || len(difference.Items) == 0 {
			return err
		}
		return findings(fmt.Errorf("the record of Node %s differs from the Node in %d labels and taints", state.Name, len(difference.Items)))
	})
}
