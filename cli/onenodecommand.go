package cli

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture"
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
func (o *nodeOptions) begin(ctx context.Context) (*cluster, capture.Circumstances, error) {
	if err := o.check(); err != nil {
		return nil, capture.Circumstances{}, err
	}
	c, err := o.open()
	if err != nil {
		return nil, capture.Circumstances{}, err
	}
	in, err := c.circumstances(ctx, &o.policy)
	return c, in, err
}
