package tool

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cmd/tool/view"
)

func newDiffCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newNodeOptions(streams)
	return o.command(&cobra.Command{
		Use:   "diff NODE [flags]",
		Short: "How the record of a Node differs from the live Node",
		Long: `Diff compares what is remembered of a Node with what the live Node shows and the policy keeps. What is remembered and withheld
for a reason is listed, but is no difference. It exits with 1 if there are differences.`,
		Example: `
			# Is everything recorded, and everything given back?
			nodekeep diff worker-1

			# Under another policy
			nodekeep diff worker-1 --policy policy.yaml`,
		GroupID: groupSee,
	}, func(ctx context.Context, args []string) error {
		c, world, err := o.begin(ctx)
		if err != nil {
			return err
		}
		sight, err := c.live(ctx, args[0])
		if err != nil {
			return err
		}
		difference := view.Diff(sight, world)
		if err := o.write(c, "NodeDifference", difference); err != nil || len(difference.Items) == 0 {
			return err
		}
		return findings(fmt.Errorf("the record of Node %s differs from the Node in %d labels and taints", sight.Name, len(difference.Items)))
	})
}
