package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

// showOptions are the flags of `show`.
type showOptions struct {
	*options
	namespace                   checksNamespace
	history, diff, verification bool
}

const showLong = `Show prints the record of a Node, also of a deleted Node. It lists the recorded labels and taints, and which of
them the Node does not show (explain says why). "Governance" lists the rules of governance that the labels of the Node
break. If the policy cannot be read, the record is shown without them.

--history lists the changes of the record instead, the newest 20, oldest first. BY is the field manager of the change, a
name that the client chose; it is "unknown" if metadata.managedFields have none. "nodekeep rollback" takes the numbers.
Lines BY "first record" are what the record held before its first change. Lines BY "earlier changes" are what it held
before the first change that is still kept. Labels that a rule set, changed or removed are listed too, the newest 10, BY
rule:NAME. They have no number: the rule decides them anew.

--diff compares the record with the live Node. It lists what capture has still to record or to restore. Recorded labels
and taints that are deliberately not on the Node are listed apart, and do not count as differences. It exits with 1 if
there are differences.

--verification says where the verification of the Node is, what it waits for, and what came of the last attempt. It
shows the report of the last attempt that did not pass, also after the Node is open or deleted, until its retention is
over. The report comes from a Pod on the Node itself, so do not trust it more than the Node. For a verified Node,
--verification names the profile, and the generation of the policy under which the Node passed. Where the profile
removes Nodes that fail, it says why the Node is not removed yet. For 24 hours it says when the Node was removed, and by
which kind of onFailure.`

const showExamples = `
	# The record of a Node
	nodekeep show worker-1

	# The record itself, for a program
	nodekeep show worker-1 -o jsonpath='{.record.labels}'

	# Who changed which label or taint of a Node, when, and from what to what
	nodekeep show worker-1 --history

	# Who was last to change something
	nodekeep show worker-1 --history -o jsonpath='{.changes[-1:].actor}{"\n"}'

	# Is everything recorded, and everything restored?
	nodekeep show worker-1 --diff

	# Why a Node takes no workloads, and what its last report says
	nodekeep show worker-1 --verification

	# Whether it is verified, for scripts
	nodekeep show worker-1 --verification -o jsonpath='{.verification.state}{"\n"}'`

func newShowCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &showOptions{options: newOptions(streams)}
	o.effectiveTraits = func() commandTraits {
		switch {
		case o.history:
			return takesNode | hasOutput
		case o.diff, o.verification:
			return takesNode | hasOutput | hasPolicy
		}
		return takesNode | hasOutput | hasGateKey
	}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "show NODE [--history | --diff | --verification] [flags]",
		Short:   "The record of a Node; its history, its difference from the Node, or the Node's verification",
		Long:    showLong,
		Example: showExamples,
		GroupID: groupSee,
	}, takesNode|hasOutput|hasPolicy, o)
	flags := command.Flags()
	flags.BoolVar(&o.history, "history", false, "who changed which label or taint, when, and from what to what")
	flags.BoolVar(&o.diff, "diff", false, "how the record differs from the live Node; the exit code is 1 if it does")
	flags.BoolVar(&o.verification, "verification", false, "why the Node is not verified yet, its last report that did not pass, and whether it was removed")
	o.namespace.addFlags(command)
	return command
}

func (o *showOptions) validate() error {
	if o.history && (o.diff || o.verification) || o.diff && o.verification {
		return errors.New("--history, --diff and --verification exclude each other")
	}
	if o.history && (o.policy.file != "" || o.policy.gateKey != "") {
		return errors.New("--policy and --gate-key do not go with --history: it needs neither")
	}
	return errors.Join(o.namespace.validate(), o.namespace.onlyWith("--verification", o.verification))
}

func (o *showOptions) rights(c *session, args []string) []doctor.Right {
	if o.verification {
		return []doctor.Right{c.NodeRight("get", args[0])}
	}
	return c.nodeAndRecordRights(args[0])
}

func (o *showOptions) run(ctx context.Context, c *session, args []string) error {
	switch {
	case o.history:
		return o.showHistory(ctx, c, args[0])
	case o.diff:
		return o.showDiff(ctx, c, args[0])
	case o.verification:
		return o.showVerification(ctx, c, args[0])
	}
	state, err := c.RequireRecordedState(ctx, args[0])
	if err != nil {
		return err
	}
	p, err := o.policy.read(ctx, c)
	switch {
	case err != nil && o.policy.file != "":
		return err
	case err != nil: // the record is there all the same
		p = policy.Default().WithGate(c.gate)
		c.sayUnknown("Whether the labels of the Node break rules of governance", err)
	}
	shown, err := view.RecordOf(state, c.Namespace, c.PlanInputs(ctx, p))
	if err != nil {
		return err
	}
	return o.write(c, "NodeRecord", shown)
}

// showHistory shows the changes of a record.
func (o *showOptions) showHistory(ctx context.Context, c *session, node string) error {
	state, err := c.RequireRecordedState(ctx, node)
	if err != nil {
		return err
	}
	history := view.HistoryOf(*state.Record)
	if o.isText() && len(history.Changes) == 0 {
		c.say("The record of Node %s has not changed since it was first written.", state.Name)
	}
	return o.write(c, "NodeHistory", history)
}

// showDiff shows what capture has still to do about a Node.
func (o *showOptions) showDiff(ctx context.Context, c *session, node string) error {
	state, err := c.RequireLiveState(ctx, node)
	if err != nil {
		return err
	}
	difference := view.Diff(state, c.inputs)
	if err := o.write(c, "NodeDifference", difference); err != nil {
		return err
	}
	if len(difference.Items) == 0 {
		if o.isText() {
			c.say("No differences.")
		}
		return nil
	}
	return asFindings(fmt.Errorf("the record of Node %s differs from the Node in %d labels and taints", state.Name, len(difference.Items)))
}
