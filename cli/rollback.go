package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
)

// rollbackManager owns the labels that a rollback sets on Nodes, and is named by the history for it.
const rollbackManager = "nodekeep-rollback"

// rollbackOptions are the flags of `rollback`.
type rollbackOptions struct {
	*options
	to changeNumber
}

const rollbackLong = `Rollback gives a live Node the labels and taints that it had after change NUMBER of its history. 0 is the state before
change 1. Only what has been changed since is touched. It shows what it would do and asks first.

It changes the Node as you would by kubectl, with your rights and as field manager ` + rollbackManager + `. It changes the
Node only in the state that it has read; capture records the change as any other. What belongs to other components, or
is ignored by the policy, is left alone. If something is left alone for that reason, the exit code is 1.`

const rollbackExamples = `
	# What would be done
	nodekeep rollback worker-1 --to 1 --dry-run

	# Do it without asking
	nodekeep rollback worker-1 --to 1 --yes`

func newRollbackCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &rollbackOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "rollback NODE --to NUMBER [flags]",
		Short:   "Put the labels and taints of a Node back to a moment of its history",
		Long:    rollbackLong,
		Example: rollbackExamples,
		GroupID: groupAct,
	}, takesNode|hasOutput|hasPolicy|hasConfirmation, o)
	command.Flags().Var(&o.to, "to", "number of the change to go back to, as \"nodekeep show NODE --history\" shows it")
	_ = command.MarkFlagRequired("to")
	return command
}

func (o *rollbackOptions) validate() error { return nil }

func (o *rollbackOptions) rights(c *session, args []string) []doctor.Right {
	if o.dryRun {
		return c.nodeAndRecordRights(args[0])
	}
	return append(c.nodeAndRecordRights(args[0]), c.NodeRight("patch", args[0]))
}

func (o *rollbackOptions) run(ctx context.Context, c *session, args []string) error {
	var rollback nodestate.Rollback
	var changes, leftAlone int
	err := change(ctx, func(ctx context.Context) (*proposal, error) {
		state, err := c.RequireLiveState(ctx, args[0])
		if err != nil {
			return nil, err
		}
		if rollback, err = nodestate.RollbackTo(state, int(o.to), c.inputs); err != nil {
			return nil, err
		}
		changes, leftAlone = rollback.Count()
		return &proposal{fingerprint: []any{state.Node.UID, rollback}, apply: func(ctx context.Context) error {
			if changes == 0 || o.dryRun {
				return nil
			}
			return c.patchNode(ctx, observe.FromNodeWithAnnotations(state.Node, c.inputs.Policy.Annotations()), rollback.Change(), metav1.PatchOptions{FieldManager: rollbackManager})
		}}, nil
	}, func(ctx context.Context, _ *proposal) error {
		if err := o.write(c, "NodeRollback", view.Rollback{Rollback: rollback}); err != nil || changes == 0 || o.dryRun {
			return err
		}
		return o.ask(ctx, c, fmt.Sprintf("Change Node %s like that?", args[0]))
	})
	switch {
	case err != nil:
		return err
	case changes == 0 && leftAlone == 0:
		c.say("Node %s is as it was after change %d: nothing is to be done.", args[0], o.to)
		return nil
	case o.dryRun:
		c.say("%s: %s would be changed.", args[0], view.Counted(changes, "value"))
		c.say(nothingChanged)
	default:
		c.say("%s: %s changed.", args[0], view.Counted(changes, "value"))
	}
	if leftAlone > 0 {
		return asFindings(fmt.Errorf("%s of Node %s left alone: what belongs to others, or the policy ignores", view.Counted(leftAlone, "value"), args[0]))
	}
	return nil
}

// changeNumber is the number of a change, as a flag.
type changeNumber int

func (n *changeNumber) String() string { return strconv.Itoa(int(*n)) }

// Type returns what the help calls the value.
func (n *changeNumber) Type() string { return "number" }

func (n *changeNumber) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return errors.New("must be a number that \"nodekeep show NODE --history\" shows, or 0 for the state before the first change")
	}
	*n = changeNumber(number)
	return nil
}
