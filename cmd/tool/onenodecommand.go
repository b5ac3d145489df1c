package tool

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cmd/tool/view"
)

// nodeOptions are what a command about one Node has.
type nodeOptions struct {
	*connection
	output
	policy policySource
}

func newNodeOptions(streams genericiooptions.IOStreams) *nodeOptions {
	return &nodeOptions{connection: newConnection(streams)}
}

// command makes it; the flags of the output and of the policy come behind its own.
func (o *nodeOptions) command(command *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	command.Args, command.ValidArgsFunction = oneNode, completeNodes(o.connection)
	newCommand(command, o.connection, run)
	o.output.addTo(command)
	o.policy.addTo(command)
	return command
}

// begin checks the flags and reads what decisions depend on.
func (o *nodeOptions) begin(ctx context.Context) (*cluster, view.World, error) {
	if err := o.check(); err != nil {
		return nil, view.World{}, err
	}
	c, err := o.open()
	if err != nil {
		return nil, view.World{}, err
	}
	world, err := c.world(ctx, &o.policy)
	return c, world, err
}
