package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// rememberOptions are the flags of `remember`.
type rememberOptions struct {
	*connection
	policy policySource
}

func newRememberCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &rememberOptions{connection: newConnection(streams)}
	command := newCommand(&cobra.Command{
		Use:   "remember NODE [flags]",
		Short: "Record now what a Node shows",
		Long: `Remember writes what a live Node shows into its record, at once and without capture: before the Node is deleted while capture is
down, say. It records what capture would: what the Node shows counts, what was removed from this Node object is forgotten, and
what a new object lacks stays remembered. The Node itself is not changed; what it lacks, capture restores.

Nothing is asked: capture does the same by itself, sooner or later.`,
		Example: `
			# A Node that is about to go, while capture is down
			nodekeep remember worker-1`,
		GroupID:           groupAct,
		Args:              oneNode,
		ValidArgsFunction: completeNodes(o.connection),
	}, o.connection, o.run)
	o.policy.addTo(command)
	return command
}

func (o *rememberOptions) run(ctx context.Context, args []string) error {
	c, name, err := o.openFor(args[0])
	if err != nil {
		return err
	}
	in, err := c.circumstances(ctx, &o.policy)
	if err != nil {
		return err
	}
	for range tries {
		remembered, err := c.remember(ctx, name, in)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			_, err = fmt.Fprintln(c.Out, remembered)
		}
		return err
	}
	return fmt.Errorf("nothing was changed: the record of node %q keeps changing; others are recording it", name)
}

// remember looks and writes once.
func (c *cluster) remember(ctx context.Context, name string, in capture.Circumstances) (view.Remembered, error) {
	state, entry, err := c.look(ctx, name)
	switch {
	case err != nil:
		return view.Remembered{}, err
	case state.Node == nil:
		return view.Remembered{}, fmt.Errorf("there is no Node %q to look at; what is remembered of it stays as it is", name)
	case state.Unreadable != nil:
		return view.Remembered{}, fmt.Errorf("%w\n  nothing is written over it; nodekeep forget %s removes it", state.Unreadable, name)
	}
	next := state.Written(in)
	remembered := view.RememberedOf(state, next)
	if next == nil {
		return remembered, nil
	}
	return remembered, c.put(ctx, *next, entry.Version)
}
