package cli

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/record/history"
)

func newHistoryCommand(streams genericiooptions.IOStreams) *cobra.Command {
	connection := newConnection(streams)
	o := &output{}
	command := newCommand(&cobra.Command{
		Use:   "history NODE [flags]",
		Short: "Who changed which label or taint of a Node, when, and from what to what",
		Long: `History lists the changes of what is remembered of a Node, also of one that is gone: the newest 20, oldest first. BY is the field
manager that metadata.managedFields show for the change, a name that a client chooses; nobody is named where they do not tell.
Rollback takes the numbers.`,
		Example: `
			# Who changed what
			nodekeep history worker-1

			# Who was last to change something
			nodekeep history worker-1 -o jsonpath='{.changes[-1:].actor}{"\n"}'`,
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
		state, err := c.recorded(ctx, args[0])
		if err != nil {
			return err
		}
		if o.table() && len(history.Of(*state.Record)) == 0 {
			c.say("Nothing of what is remembered of Node %s has changed since it was first recorded.", state.Name)
			return nil
		}
		return o.write(c, "NodeHistory", view.HistoryOf(*state.Record))
	})
	o.addTo(command)
	return command
}
