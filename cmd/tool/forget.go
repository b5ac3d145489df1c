package tool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cmd/tool/view"
	"nodekeep.dev/nodekeep/store"
)

// tries is how often something is tried that was agreed to and that others change meanwhile without making it another.
const tries = 20

func newForgetCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &forgetOptions{connection: newConnection(streams)}
	command := newCommand(&cobra.Command{
		Use:   "forget NODE [KEY...] [flags]",
		Short: "Forget what is remembered of a Node, or some of it",
		Long: `Forget removes labels (KEY) and taints (KEY:EFFECT) from what is remembered of a Node, or the whole record where none are named.

What a live Node shows, capture would record again at once: such a key is refused, and what is printed is the kubectl command
that takes it off the Node, which is what makes nodekeep forget it. So of a live Node that can be forgotten which it does not
show: what is withheld, and what is still to be given back. A record that cannot be read is removed as a whole, and written
anew by capture if the Node is live.`,
		Example: `
			# All that is remembered of a Node that is gone
			nodekeep forget worker-2 --yes

			# A label and a taint of it
			nodekeep forget worker-2 dedicated tenant:NoSchedule --yes`,
		GroupID:           groupAct,
		Args:              oneNodeAndMore,
		ValidArgsFunction: completeRemembered(o.connection),
	}, o.connection, o.run)
	o.confirmation.addTo(command.Flags())
	return command
}

// forgetOptions are the flags of `forget`.
type forgetOptions struct {
	*connection
	confirmation
}

func (o *forgetOptions) run(ctx context.Context, args []string) error {
	c, name, err := o.openFor(args[0])
	if err != nil {
		return err
	}
	sight, entry, err := c.look(ctx, name)
	if err != nil {
		return err
	}
	plan := view.ForgettingOf(sight, args[1:])
	if err := plan.Err(); err != nil {
		return err
	}
	if sight.Unreadable != nil && entry.Unlisted {
		return fmt.Errorf("ConfigMap %s in namespace %s is no record of nodekeep's: it has no label %s; kubectl removes it", store.Name(name), c.namespace, store.RecordLabel)
	}
	if err := o.agree(ctx, c, sight, plan); err != nil {
		return err
	}
	for range tries {
		err := c.forget(ctx, sight, entry, plan)
		if !errors.Is(err, store.ErrConflict) {
			if err == nil {
				_, err = fmt.Fprintln(c.Out, plan.Done())
			}
			return err
		}
		if sight, entry, err = c.look(ctx, name); err != nil {
			return err
		}
		if !reflect.DeepEqual(view.ForgettingOf(sight, args[1:]), plan) {
			break
		}
	}
	return errOvertaken
}

// errOvertaken ends a command whose plan is not right any more.
var errOvertaken = errors.New("nothing was changed: the Node or its record has changed since the plan was made; run it again to see how")

func (o *forgetOptions) agree(ctx context.Context, c *cluster, sight view.Sight, plan view.Forgetting) error {
	switch {
	case sight.Unreadable != nil:
		c.say("%v\nIt is removed as it is, with all that somebody could still read in it; a copy:\n  kubectl -n %s get configmap %s -o yaml", sight.Unreadable, c.namespace, store.Name(sight.Name))
		return o.ask(ctx, c.IOStreams, fmt.Sprintf("Remove the record of node %q?", sight.Name))
	case o.yes:
		return nil
	}
	if err := (&output{format: formatTable}).document(c.ErrOut, plan.Document(c.now())); err != nil {
		return err
	}
	return o.ask(ctx, c.IOStreams, fmt.Sprintf("\nForget this of node %q?", sight.Name))
}

// forget carries out a plan on exactly the record that was read.
func (c *cluster) forget(ctx context.Context, sight view.Sight, entry store.Entry, plan view.Forgetting) error {
	ctx, cancel := finish(ctx)
	defer cancel()
	switch {
	case plan.Whole && sight.Unreadable != nil:
		return c.failedWrite(c.toRecords("delete"), "the record of node "+sight.Name, c.records.Delete(ctx, sight.Name, entry.Version))
	case plan.Whole:
		return c.removeGone(ctx, entry)
	}
	if err := c.put(ctx, plan.Record(entry.Record, c.now()), entry.Version); err != nil {
		return err
	}
	if sight.Node == nil {
		return nil
	}
	after, _, err := c.look(ctx, sight.Name)
	if err != nil {
		return nil // it is done; this is a look at what may have come in between
	}
	return findings(plan.Overtaken(sight, after))
}

// removeGone removes the record of a Node that is gone, as the product does: should the Node register in that very moment,
// its record is put back.
func (c *cluster) removeGone(ctx context.Context, entry store.Entry) error {
	outcome, err := capture.Removal{Records: c.records, Client: c.client}.Remove(ctx, entry)
	switch {
	case err != nil && outcome == capture.Failed:
		return c.failedWrite(c.toRecords("delete"), "the record of node "+entry.Record.Node, err)
	case err != nil:
		return err
	case outcome == capture.PutBack:
		return fmt.Errorf("nothing was changed: node %q has registered in this very moment, so its record was put back", entry.Record.Node)
	case outcome == capture.Kept:
		return fmt.Errorf("delete record of node %q: %w", entry.Record.Node, store.ErrConflict)
	}
	return nil
}

// openFor opens the cluster for a command about one Node.
func (c *connection) openFor(argument string) (*cluster, string, error) {
	name, err := nodeName(argument)
	if err != nil {
		return nil, "", usage(err)
	}
	cluster, err := c.open()
	return cluster, name, err
}

// oneNodeAndMore takes the name of a Node and anything behind it.
func oneNodeAndMore(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return oneNode(command, args)
	}
	return oneNode(command, args[:1])
}

// completeRemembered completes the name of a Node, and then what is remembered of it.
func completeRemembered(connection *connection) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completeNodes(connection)(command, args, begun)
		}
		c, name, err := connection.openFor(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(contextOf(command), completionTimeout)
		defer cancel()
		entry, err := c.records.GetLive(ctx, name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var items []string
		for item := range entry.Record.Remembered() {
			if !slices.Contains(args[1:], item) {
				items = append(items, item)
			}
		}
		slices.Sort(items)
		return items, cobra.ShellCompDirectiveNoFileComp
	}
}
