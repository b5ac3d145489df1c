package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/view"
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

What a live Node shows, capture would record again at once. Such a key is refused, and the kubectl command is printed that removes
it from the Node: nodekeep forgets it with that. What is remembered and not shown on the Node can be forgotten while the Node lives.
A record that cannot be read is removed as a whole, and written anew by capture if the Node is live.`,
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
	state, entry, err := c.look(ctx, name)
	if err != nil {
		return err
	}
	plan := view.ForgettingOf(state, args[1:])
	if err := plan.Err(); err != nil {
		return err
	}
	if state.Unreadable != nil && entry.Unlisted {
		return fmt.Errorf("ConfigMap %s in namespace %s is no record of nodekeep's: it has no label %s; kubectl removes it", store.Name(name), c.namespace, store.RecordLabel)
	}
	if err := o.agree(ctx, c, state, plan); err != nil {
		return err
	}
	for range tries {
		err := c.forget(ctx, state, entry, plan)
		if !errors.Is(err, store.ErrConflict) {
			if err == nil {
				_, err = fmt.Fprintln(c.Out, plan.Done())
			}
			return err
		}
		if state, entry, err = c.look(ctx, name); err != nil {
			return err
		}
		if !reflect.DeepEqual(view.ForgettingOf(state, args[1:]), plan) {
			break
		}
	}
	return errOvertaken
}

// errOvertaken ends a command whose plan is not right any more.
var errOvertaken = errors.New("nothing was changed: the Node or its record has changed since the plan was made; run it again to see how")

func (o *forgetOptions) agree(ctx context.Context, c *cluster, state view.NodeState, plan view.Forgetting) error {
	switch {
	case state.Unreadable != nil:
		c.say("%v\nIt is removed as it is, with all that somebody could still read in it; a copy:\n  kubectl -n %s get configmap %s -o yaml", state.Unreadable, c.namespace, store.Name(state.Name))
		return o.ask(ctx, c.IOStreams, fmt.Sprintf("Remove the record of node %q?", state.Name))
	case o.yes:
		return nil
	}
	if err := (&output{format: formatTable}).document(c.ErrOut, plan.Document(c.now())); err != nil {
		return err
	}
	return o.ask(ctx, c.IOStreams, fmt.Sprintf("\nForget this of node %q?", state.Name))
}

// forget carries out a plan on exactly the record that was read.
func (c *cluster) forget(ctx context.Context, state view.NodeState, entry store.Entry, plan view.Forgetting) error {
	ctx, cancel := finish(ctx)
	defer cancel()
	switch {
	case plan.Whole && state.Unreadable != nil:
		return c.failedWrite(c.toRecords("delete"), "the record of node "+state.Name, c.records.Delete(ctx, state.Name, entry.Version))
	case plan.Whole:
		return c.removeGone(ctx, entry)
	default:
		return c.put(ctx, plan.Record(entry.Record, c.now()), entry.Version)
	}
}

// removeGone removes the record of a Node that is gone, as the product does: should the Node register in that very moment,
// its record is put back.
func (c *cluster) removeGone(ctx context.Context, entry store.Entry) error {
	outcome, err := gc.Removal{Records: c.records, Client: c.client}.Remove(ctx, entry)
	switch {
	case err != nil && outcome == gc.Failed:
		return c.failedWrite(c.toRecords("delete"), "the record of node "+entry.Record.Node, err)
	case err != nil:
		return err
	case outcome == gc.PutBack:
		return fmt.Errorf("nothing was changed: node %q has registered in this very moment, so its record was put back", entry.Record.Node)
	case outcome == gc.Kept:
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
		for item := range entry.Record.Items() {
			if !slices.Contains(args[1:], item) {
				items = append(items, item)
			}
		}
		slices.Sort(items)
		return items, cobra.ShellCompDirectiveNoFileComp
	}
}
