package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

func newForgetCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o, dryRun := newOptions(streams), false
	o.rights = func(c *session, args []string) []doctor.Right {
		if dryRun {
			return c.nodeAndRecordRights(args[0])
		}
		if len(args) > 1 {
			return append(c.nodeAndRecordRights(args[0]), c.RecordRight("patch", args[0]))
		}
		return append(c.nodeAndRecordRights(args[0]), c.RecordRight("delete", args[0]), c.RecordsRight("create")) // a Node that registers meanwhile gets its record back
	}
	command := o.changing(&cobra.Command{
		Use:   "forget NODE [KEY...] [flags]",
		Short: "Forget the record of a Node, or some of it",
		Long: `Forget removes labels (KEY), taints (KEY:EFFECT) and annotations (@KEY) from the record of a Node. Without
keys, it removes the whole record.

A key that a live Node shows is refused: capture would record it again at once. The command that is printed removes it
from the Node, and nodekeep forgets it with that. Recorded values that the Node does not show can be forgotten while
the Node lives. A record that cannot be read is removed as a whole. If the Node is live, capture writes it anew.`,
		Example: `
			# What would be forgotten
			nodekeep forget worker-2 --dry-run

			# The whole record of a Node that is deleted
			nodekeep forget worker-2 --yes

			# A label and a taint of it
			nodekeep forget worker-2 dedicated tenant:NoSchedule --yes`,
		GroupID: groupAct,
		Args: func(command *cobra.Command, args []string) error {
			return oneNode(command, args[:min(1, len(args))])
		},
		ValidArgsFunction: o.complete(nodeNames, recordedItems),
	}, aboutNode|asks, func(ctx context.Context, c *session, args []string) (*proposal, error) {
		state, err := c.GetState(ctx, args[0])
		if err != nil {
			return nil, err
		}
		if state.Unreadable != nil && state.Entry.Unlisted {
			return nil, fmt.Errorf("ConfigMap %s in namespace %s is not a record of nodekeep: it has no label %s; kubectl deletes it", store.Name(args[0]), c.Namespace, store.RecordLabel)
		}
		forgetting := view.Forgetting{Forgetting: nodestate.ForgettingOf(state, args[1:])}
		p := &proposal{document: forgetting.Document(c.Now()), question: fmt.Sprintf("\nForget this of Node %q?", args[0]), fingerprint: forgetting.Document(time.Time{})}
		if err := forgetting.Err(); err != nil {
			return nil, err
		}
		if dryRun {
			return nil, c.wouldForget(state, forgetting)
		}
		if state.Unreadable != nil {
			c.say("%v\nIt is deleted as it is, with all that could still be read in it; a copy:\n  kubectl -n %s get configmap %s -o yaml", state.Unreadable, c.Namespace, store.Name(args[0]))
			p.document, p.question = view.Document{}, fmt.Sprintf("Delete the record of Node %q?", args[0])
		}
		p.apply = func(ctx context.Context) error {
			if err := c.forget(ctx, state, forgetting); err != nil {
				return err
			}
			return c.printResult("%s", forgetting.Done())
		}
		return p, nil
	})
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be forgotten")
	return command
}

// wouldForget shows a plan that is not carried out.
func (c *session) wouldForget(state nodestate.State, plan view.Forgetting) error {
	shown := plan.Document(c.Now())
	if state.Unreadable != nil {
		c.say("%v\nThe record of Node %q would be deleted as it is.", state.Unreadable, state.Name)
		shown = view.Document{}
	}
	if err := (&output{format: formatTable}).document(c.Out, shown); err != nil {
		return err
	}
	c.say("Nothing was changed (dry run).")
	return nil
}

// forget carries out a plan on exactly the record that was read. It deletes the record of a deleted Node as the product does. If the Node registers
// at that moment, its record is restored.
func (c *session) forget(ctx context.Context, state nodestate.State, plan view.Forgetting) error {
	record := "the record of Node " + state.Name
	switch {
	case plan.Whole && state.Unreadable != nil:
		return c.failedWrite(c.RecordsRight("delete"), record, c.Records.Delete(ctx, state.Name, state.Entry.Version))
	case !plan.Whole:
		return c.put(ctx, plan.Remaining(*state.Record, c.Now()), state.Entry.Version)
	}
	outcome, err := gc.Remover{Records: c.Records, Client: c.Client}.Remove(ctx, state.Entry)
	switch {
	case err != nil && outcome == gc.Failed:
		return c.failedWrite(c.RecordsRight("delete"), record, err)
	case outcome == gc.PutBack && err == nil:
		return fmt.Errorf("nothing was changed: Node %q has registered in this very moment, so its record was put back", state.Name)
	case outcome == gc.Kept && err == nil:
		return fmt.Errorf("delete record of node %q: %w", state.Name, store.ErrConflict)
	}
	return err
}

func newRememberCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = func(c *session, args []string) []doctor.Right {
		return append(c.nodeAndRecordRights(args[0]), c.RecordsRight("create"), c.RecordRight("patch", args[0]))
	}
	return o.changing(&cobra.Command{
		Use:   "remember NODE [flags]",
		Short: "Record now what a Node shows",
		Long: `Remember writes what a live Node shows into its record, at once and without capture. Use it before the Node is
deleted while capture is down, say. It records what capture would. What the Node shows counts. What was removed from
this Node object is forgotten. What a new object lacks stays recorded. The Node itself is not changed: capture restores
what it lacks.

It does not ask: capture does the same by itself, sooner or later.`,
		Example: `
			# A Node that is about to be deleted, while capture is down
			nodekeep remember worker-1`,
		GroupID: groupAct,
	}, aboutNode|decides, func(ctx context.Context, c *session, args []string) (*proposal, error) {
		state, err := c.GetState(ctx, args[0])
		switch {
		case err != nil:
			return nil, err
		case state.Node == nil:
			return nil, fmt.Errorf("there is no Node %q to look at; its record stays as it is", args[0])
		case state.Unreadable != nil:
			return nil, c.RequireRecord(state)
		}
		return &proposal{apply: func(ctx context.Context) error {
			next := state.NextRecord(c.in)
			if next != nil {
				if err := c.put(ctx, *next, state.Entry.Version); err != nil {
					return err
				}
			}
			return c.printResult("%s", view.Remembered(state, next))
		}}, nil
	})
}

func newAcceptCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = func(c *session, args []string) []doctor.Right {
		return []doctor.Right{c.RecordRight("get", args[0]), c.RecordRight("patch", args[0])}
	}
	var machine string
	command := o.changing(&cobra.Command{
		Use:   "accept NODE --machine old|new [flags]",
		Short: "Decide between two machines that have had one name",
		Long: `Accept decides about a record that is quarantined. Under machine.onMismatch: quarantine, another machine has
registered under the name of a Node. It gets nothing from the record, and keeps the gate until an operator decides.

Under machine.follow: true, labels that no kubelet may set wait in the same way. They wait when a machine registers
under a new name.

  --machine old   the record belongs to the machine that has the name now: it is restored there
  --machine new   it does not: the record is deleted, and a new one is written from the Node of the new machine

Both sides are shown first. The decision is written on the record, and capture carries it out.`,
		Example: `
			# The board was replaced, the Node is the same
			nodekeep accept worker-3 --machine old --yes`,
		GroupID: groupAct,
	}, aboutNode|asks, func(ctx context.Context, c *session, args []string) (*proposal, error) {
		name, side := args[0], store.Side(machine)
		state, err := c.ReadRecord(ctx, nodestate.State{Name: name})
		if err == nil {
			err = c.RequireRecord(state)
		}
		switch {
		case err != nil:
			return nil, err
		case state.Record.Quarantined == nil:
			return nil, fmt.Errorf("there is nothing to decide: no other machine has taken the name %q since it was last decided", name)
		case state.Entry.Accepted == side:
			return nil, c.doneForCapture(ctx, "node/%s: machine %q was accepted before; capture has still to carry it out", name, side)
		}
		sides := view.SidesOf(state.Entry)
		return &proposal{document: sides.Document(c.Now()), question: "\n" + sides.Question(side), fingerprint: sides, apply: func(ctx context.Context) error {
			if err := c.failedWrite(c.RecordsRight("patch"), "the record of Node "+name, c.Records.Accept(ctx, name, side, state.Entry.Version)); err != nil {
				return err
			}
			return c.doneForCapture(ctx, "node/%s: machine %q accepted", name, side)
		}}, nil
	})
	sides := []string{string(store.OldMachine), string(store.NewMachine)}
	oneOf(command, &machine, "machine", "whose record is right: old or new", sides...)
	o.validate = func() error {
		if machine != sides[0] && machine != sides[1] {
			return fmt.Errorf("--machine %q: must be %s or %s", machine, sides[0], sides[1])
		}
		return nil
	}
	return command
}

// oneOf adds a flag that a shell completes by its values.
func oneOf(command *cobra.Command, value *string, name, text string, values ...string) {
	command.Flags().StringVar(value, name, *value, text)
	_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
