package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// forgetOptions are the flags of `forget`.
type forgetOptions struct {
	*options
	olderThan string
	retention time.Duration // as olderThan says
	limit     int
}

const forgetLong = `Forget removes labels (KEY), taints (KEY:EFFECT) and annotations (@KEY) from the record of a Node. Without
keys, it removes the whole record.

A key that a live Node shows is refused: capture would record it again at once. Remove it from the Node instead, by the
command that is printed; then nodekeep forgets it, too. Recorded values that the Node does not show can be forgotten
while the Node lives. A record that cannot be read is removed as a whole. If the Node is live, capture writes it anew.

With --older-than it removes the records of all Nodes that were deleted longer ago. It also removes records that hold
nothing any more, two minutes after their Node was deleted. capture does the same after the policy's retention. Records
of live Nodes stay, and so do those that wait for a decision between two machines. Each record is removed only as it was
read. Just before, it asks the API server whether the Node exists. If the Node registers in that very moment, its record
is put back. It stops at the first error.`

const forgetExamples = `
	# What would be forgotten
	nodekeep forget worker-2 --dry-run

	# The whole record of a Node that is deleted
	nodekeep forget worker-2 --yes

	# A label and a taint of it
	nodekeep forget worker-2 dedicated tenant:NoSchedule --yes

	# The records of Nodes that were deleted 30 days ago or earlier, the oldest 1000 at most
	nodekeep forget --older-than 720h --at-most 1000 --yes`

func newForgetCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &forgetOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:               "forget (NODE [KEY...] | --older-than DURATION) [flags]",
		Short:             "Forget the record of a Node, some of it, or the records of Nodes that were deleted long ago",
		Long:              forgetLong,
		Example:           forgetExamples,
		GroupID:           groupAct,
		Args:              o.validateArgs,
		ValidArgsFunction: o.complete(completeNodes, completeItems),
	}, takesNode|hasConfirmation, o)
	flags := command.Flags()
	flags.StringVar(&o.olderThan, "older-than", "", "remove the records of Nodes that were deleted at least this long ago, such as 720h; 10m or more")
	flags.IntVar(&o.limit, "at-most", 0, "with --older-than, how many records are removed at most, the oldest first; 0 for all")
	return command
}

// validateArgs takes a Node and items of its record, or nothing with --older-than.
func (o *forgetOptions) validateArgs(command *cobra.Command, args []string) error {
	switch byAge := command.Flags().Changed("older-than"); {
	case byAge && len(args) > 0:
		return errors.New("NODE and --older-than exclude each other")
	case byAge && o.olderThan == "":
		return errors.New("--older-than says for how long Nodes must have been deleted, such as 720h")
	case byAge:
		return nil
	case command.Flags().Changed("at-most"):
		return errors.New("--at-most goes with --older-than")
	}
	return oneNode(command, args[:min(1, len(args))])
}

func (o *forgetOptions) validate() error {
	if o.olderThan == "" {
		return nil
	}
	var wrong string
	o.retention, wrong = policy.ParseRetention(o.olderThan)
	switch {
	case wrong != "":
		return fmt.Errorf("--older-than %q: %s", o.olderThan, wrong)
	case o.retention == 0:
		return errors.New("--older-than 0 keeps all records for ever: there is nothing to remove")
	case o.limit < 0:
		return fmt.Errorf("--at-most %d: must not be negative", o.limit)
	}
	return nil
}

func (o *forgetOptions) rights(c *session, args []string) []doctor.Right {
	switch {
	case len(args) == 0:
		return o.oldRights(c)
	case o.dryRun:
		return c.nodeAndRecordRights(args[0])
	case len(args) > 1:
		return append(c.nodeAndRecordRights(args[0]), c.RecordRight("patch", args[0]))
	}
	return append(c.nodeAndRecordRights(args[0]), c.RecordRight("delete", args[0]), c.RecordsRight("create")) // a Node that registers meanwhile gets its record back
}

func (o *forgetOptions) run(ctx context.Context, c *session, args []string) error {
	if len(args) == 0 {
		return o.forgetOld(ctx, c)
	}
	return o.change(ctx, c, func(ctx context.Context) (*proposal, error) { return o.plan(ctx, c, args[0], args[1:]) })
}

// plan plans to forget some items of a record, or the whole one.
func (o *forgetOptions) plan(ctx context.Context, c *session, node string, items []string) (*proposal, error) {
	state, err := c.GetState(ctx, node)
	if err != nil {
		return nil, err
	}
	if state.Unreadable != nil && state.StoreEntry.Unlisted {
		return nil, fmt.Errorf("ConfigMap %s in namespace %s is not a record of nodekeep: it has no label %s; kubectl deletes it", store.Name(node), c.Namespace, store.RecordLabel)
	}
	forgetPlan := view.ForgetPlan{ForgetPlan: nodestate.PlanForget(state, items)}
	if err := forgetPlan.Err(); err != nil {
		return nil, err
	}
	p := &proposal{document: forgetPlan.Document(c.Now()), question: fmt.Sprintf("Forget this of Node %q?", node), fingerprint: forgetPlan.Document(time.Time{})}
	if state.Unreadable != nil {
		p.document, p.question = view.Document{}, fmt.Sprintf("Delete the record of Node %q?", node)
		p.summary = fmt.Sprintf("%v\nThe record of Node %q is to be deleted as it is, with all that could still be read in it; a copy:\n  kubectl -n %s get configmap %s -o yaml", state.Unreadable, node, c.Namespace, store.Name(node))
	}
	p.apply = func(ctx context.Context) error {
		if o.yes && p.summary != "" { // nobody has seen it
			c.say("%s", p.summary)
		}
		if err := c.forget(ctx, state, forgetPlan); err != nil {
			return err
		}
		return c.printResult("%s", forgetPlan.Done())
	}
	return p, nil
}

// forget carries out a plan on exactly the record that was read. It deletes the record of a deleted Node as the product does. If the Node registers
// at that moment, its record is restored.
func (c *session) forget(ctx context.Context, state nodestate.State, plan view.ForgetPlan) error {
	record := "the record of Node " + state.Name
	switch {
	case plan.Whole && state.Unreadable != nil:
		return c.explainWriteError(c.RecordsRight("delete"), record, c.Records.Delete(ctx, state.Name, state.StoreEntry.Version))
	case !plan.Whole:
		return c.writeRecord(ctx, plan.Remaining(*state.Record, c.Now()), state.StoreEntry.Version)
	}
	outcome, err := gc.Remover{Records: c.Records, Client: c.Client}.Remove(ctx, state.StoreEntry)
	switch {
	case err != nil && outcome == gc.Failed:
		return c.explainWriteError(c.RecordsRight("delete"), record, err)
	case outcome == gc.PutBack && err == nil:
		return fmt.Errorf("nothing was changed: Node %q has registered in this very moment, so its record was put back", state.Name)
	case outcome == gc.Kept && err == nil:
		return fmt.Errorf("delete record of node %q: %w", state.Name, store.ErrConflict)
	}
	return err
}
