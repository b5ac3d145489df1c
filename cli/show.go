package cli

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/view"
)

func newShowCommand(streams genericiooptions.IOStreams) *cobra.Command {
	connection := newConnection(streams)
	o := &output{}
	gate := &gateSource{}
	command := newCommand(&cobra.Command{
		Use:   "show NODE [flags]",
		Short: "What is remembered of a Node",
		Long: `Show prints the record of a Node, also of one that is gone: the labels and taints that are remembered, and which of them are not
shown on the Node (explain says why).`,
		Example: `
			# What is remembered of a Node
			nodekeep show worker-1

			# The record itself, for a program
			nodekeep show worker-1 -o jsonpath='{.record.labels}'`,
		GroupID:           groupSee,
		Args:              oneNode,
		ValidArgsFunction: completeNodes(connection),
	}, connection, func(ctx context.Context, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		c, err := connection.open()
		if err != nil {
			return err
		}
		key, err := gate.read(ctx, c)
		if err != nil {
			return err
		}
		state, err := c.recorded(ctx, args[0])
		if err != nil {
			return err
		}
		shown, err := view.RecordOf(state, c.namespace, key)
		if err != nil {
			return err
		}
		return o.write(c, "NodeRecord", shown)
	})
	o.addTo(command)
	gate.addTo(command)
	return command
}
