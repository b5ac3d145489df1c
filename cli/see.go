package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

func newShowCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = rightsForState
	return o.command(&cobra.Command{
		Use:   "show NODE [flags]",
		Short: "The record of a Node",
		Long: `Show prints the record of a Node, also of a deleted Node. It lists the recorded labels and taints, and which of
them the Node does not show (explain says why). "Governance" lists the rules of governance that the labels of the Node
break. If the policy cannot be read, the record is shown without them.`,
		Example: `
			# The record of a Node
			nodekeep show worker-1

			# The record itself, for a program
			nodekeep show worker-1 -o jsonpath='{.record.labels}'`,
		GroupID: groupSee,
	}, aboutNode|prints|knowsGate, func(ctx context.Context, c *session, args []string) error {
		state, err := c.GetRecordedState(ctx, args[0])
		if err != nil {
			return err
		}
		p, err := o.policy.read(ctx, c)
		if err != nil { // the record is there all the same
			p = policy.Default().WithGate(c.gate)
			c.sayUnknown("Whether the labels of the Node break rules of governance", err)
		}
		shown, err := view.RecordOf(state, c.Namespace, c.Circumstances(ctx, p))
		if err != nil {
			return err
		}
		return o.write(c, "NodeRecord", shown)
	})
}

func newHistoryCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = rightsForState
	return o.command(&cobra.Command{
		Use:   "history NODE [flags]",
		Short: "Who changed which label or taint of a Node, when, and from what to what",
		Long: `History lists the changes of the record of a Node, the newest 20, oldest first. It also works for a deleted
Node. BY is the field manager that metadata.managedFields show for the change. A client chooses this name; it is
unknown where they show none. Rollback takes the numbers.

Lines BY "first record" are what the record held before its first change. Lines BY "earlier changes" are what it held
before the first change that is still kept.

Labels that a rule set, changed or removed are listed too, the newest 10, BY rule:NAME. They have no number: the rule
decides them anew.`,
		Example: `
			# Who changed what
			nodekeep history worker-1

			# Who was last to change something
			nodekeep history worker-1 -o jsonpath='{.changes[-1:].actor}{"\n"}'`,
		GroupID: groupSee,
	}, aboutNode|prints, func(ctx context.Context, c *session, args []string) error {
		state, err := c.GetRecordedState(ctx, args[0])
		if err != nil {
			return err
		}
		history := view.HistoryOf(*state.Record)
		if o.table() && len(history.Changes) == 0 {
			c.say("The record of Node %s has not changed since it was first written.", state.Name)
		}
		return o.write(c, "NodeHistory", history)
	})
}

func newDiffCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = rightsForState
	return o.command(&cobra.Command{
		Use:   "diff NODE [flags]",
		Short: "How the record of a Node differs from the live Node",
		Long: `Diff compares the record of a Node with the live Node. It lists what capture has still to record or to restore.
Recorded labels and taints that the Node, for a reason, does not show are listed, but are no difference. Without
differences it says so. It exits with 1 if there are some.`,
		Example: `
			# Is everything recorded, and everything restored?
			nodekeep diff worker-1

			# Under another policy
			nodekeep diff worker-1 --policy policy.yaml`,
		GroupID: groupSee,
	}, aboutNode|prints|decides, func(ctx context.Context, c *session, args []string) error {
		state, err := c.GetLiveState(ctx, args[0])
		if err != nil {
			return err
		}
		difference := view.Diff(state, c.in)
		if err := o.write(c, "NodeDifference", difference); err != nil {
			return err
		}
		if len(difference.Items) == 0 {
			if o.table() {
				c.say("No differences.")
			}
			return nil
		}
		return findings(fmt.Errorf("the record of Node %s differs from the Node in %d labels and taints", state.Name, len(difference.Items)))
	})
}
