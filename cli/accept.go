package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// acceptOptions are the flags of `accept`.
type acceptOptions struct {
	*connection
	confirmation
	machine string
}

func newAcceptCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &acceptOptions{connection: newConnection(streams)}
	command := newCommand(&cobra.Command{
		Use:   "accept NODE --machine old|new [flags]",
		Short: "Decide between two machines that have had one name",
		Long: `Accept decides about a record that is quarantined: under machine.onMismatch: quarantine another machine has registered under the
name of a Node, gets nothing of what is remembered, and keeps the gate until somebody has decided.

  --machine old   what was remembered belongs to the machine that has the name now: it gets it
  --machine new   it does not: what was remembered is forgotten, and what the new machine's Node shows counts

Both sides are shown first. The decision is written on the record, and capture carries it out.`,
		Example: `
			# The board was replaced, the Node is the same
			nodekeep accept worker-3 --machine old --yes`,
		GroupID:           groupAct,
		Args:              oneNode,
		ValidArgsFunction: completeNodes(o.connection),
	}, o.connection, o.run)
	command.Flags().StringVar(&o.machine, "machine", "", "whose record is right: old or new")
	_ = command.RegisterFlagCompletionFunc("machine", cobra.FixedCompletions([]string{string(store.OldMachine), string(store.NewMachine)}, cobra.ShellCompDirectiveNoFileComp))
	o.confirmation.addTo(command.Flags())
	return command
}

func (o *acceptOptions) run(ctx context.Context, args []string) error {
	side := store.Side(o.machine)
	if side != store.OldMachine && side != store.NewMachine {
		return usage(fmt.Errorf("--machine %q: must be %s or %s", o.machine, store.OldMachine, store.NewMachine))
	}
	c, err := o.open()
	if err != nil {
		return err
	}
	sides, version, err := c.sides(ctx, args[0])
	if err != nil {
		return err
	}
	if sides.Accepted == side {
		_, err := fmt.Fprintf(c.Out, "node/%s: machine %q was accepted before; capture has still to carry it out\n", sides.Node, side)
		return err
	}
	if !o.yes {
		if err := (&output{format: formatTable}).document(c.ErrOut, sides.Document(c.now())); err != nil {
			return err
		}
		if err := o.ask(ctx, c.IOStreams, "\n"+sides.Question(side)); err != nil {
			return err
		}
	}
	for range tries {
		err := c.accept(ctx, sides.Node, side, version)
		if !errors.Is(err, store.ErrConflict) {
			if err == nil {
				_, err = fmt.Fprintf(c.Out, "node/%s: machine %q accepted\n", sides.Node, side)
			}
			return err
		}
		var again view.Sides
		if again, version, err = c.sides(ctx, args[0]); err != nil {
			return err
		}
		if !reflect.DeepEqual(again, sides) {
			break
		}
	}
	return errOvertaken
}

func (c *cluster) accept(ctx context.Context, node string, side store.Side, version string) error {
	ctx, cancel := finish(ctx)
	defer cancel()
	return c.failedWrite(c.toRecords("patch"), "the record of node "+node, c.records.Accept(ctx, node, side, version))
}

// sides reads a record that must be quarantined.
func (c *cluster) sides(ctx context.Context, argument string) (sides view.Sides, version string, err error) {
	name, err := nodeName(argument)
	if err != nil {
		return view.Sides{}, "", usage(err)
	}
	entry, err := c.records.GetLive(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return view.Sides{}, "", fmt.Errorf("nothing is remembered of Node %q: there is no record in namespace %s", name, c.namespace)
	case errors.Is(err, store.ErrUnreadable):
		return view.Sides{}, "", fmt.Errorf("%w\n  mend ConfigMap %s in namespace %s, or nodekeep forget %s removes it", err, store.Name(name), c.namespace, name)
	case err != nil:
		return view.Sides{}, "", c.failed(c.toRecords("get"), err)
	case entry.Record.Quarantined == nil:
		return view.Sides{}, "", fmt.Errorf("there is nothing to decide: no other machine has taken the name %q since it was last decided", name)
	}
	return view.SidesOf(entry), entry.Version, nil
}
