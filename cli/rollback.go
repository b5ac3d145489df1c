package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
)

// rollbackManager owns the labels that a rollback puts on Nodes, and is named by the history for it.
const rollbackManager = "nodekeep-rollback"

// rollbackAttempts is how often a Node is looked at again that somebody, often its kubelet, writes at the same time.
const rollbackAttempts = 5

// rollbackOptions are the flags of `rollback`.
type rollbackOptions struct {
	*nodeOptions
	confirmation
	dryRun
	to int
}

func newRollbackCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &rollbackOptions{nodeOptions: newNodeOptions(streams)}
	command := o.command(&cobra.Command{
		Use:   "rollback NODE --to NUMBER [flags]",
		Short: "Put the labels and taints of a Node back to a moment of its history",
		Long: `Rollback gives a live Node the labels and taints that it had after change NUMBER of its history, or with 0 before the first. Only
what has been changed since is touched. It shows what it would do and asks first.

It changes the Node as you would by kubectl, with your rights and as field manager ` + rollbackManager + `, and only as it was
looked at; capture records the change as any other. What belongs to other components, or is ignored by the policy, is left
alone, and the exit code is 1 then.`,
		Example: `
			# What would be done
			nodekeep rollback worker-1 --to 1 --dry-run

			# Do it without asking
			nodekeep rollback worker-1 --to 1 --yes`,
		GroupID: groupAct,
	}, o.run)
	flags := command.Flags()
	flags.IntVar(&o.to, "to", 0, "number of the change to go back to, by `history`")
	_ = command.MarkFlagRequired("to")
	o.confirmation.addTo(flags)
	o.dryRun.addTo(command)
	return command
}

func (o *rollbackOptions) run(ctx context.Context, args []string) error {
	if err := o.checkMode(); err != nil {
		return err
	}
	c, in, err := o.begin(ctx)
	if err != nil {
		return err
	}
	state, err := c.live(ctx, args[0])
	if err != nil {
		return err
	}
	plan, err := view.RollbackTo(state, o.to, in)
	if err != nil {
		return err
	}
	if err := o.write(c, "NodeRollback", plan); err != nil {
		return err
	}
	changes, leftAlone := plan.Changes()
	switch {
	case changes == 0 && leftAlone == 0:
		c.say("Node %s is as it was after change %d: nothing is to be done.", state.Name, o.to)
		return nil
	case changes > 0 && !o.client():
		if err := o.carryOut(ctx, c, state, plan, in); err != nil {
			return err
		}
	}
	done := map[bool]string{false: "%s: %d labels and taints changed.", true: "%s: %d labels and taints would be changed; nothing was (dry run)."}[o.any()]
	c.say(done, state.Name, changes)
	if leftAlone > 0 {
		return findings(fmt.Errorf("%d labels and taints of Node %s were left alone, since they belong to others or the policy ignores them", leftAlone, state.Name))
	}
	return nil
}

// carryOut asks and patches. The Node is written only as it was looked at: where it has changed meanwhile in what the plan is
// about, the person has agreed to something else.
func (o *rollbackOptions) carryOut(ctx context.Context, c *cluster, state view.NodeState, plan view.Rollback, in capture.Circumstances) error {
	if !o.any() {
		if err := o.ask(ctx, c.IOStreams, fmt.Sprintf("Change Node %s like that?", state.Name)); err != nil {
			return err
		}
	}
	uid := state.Node.UID
	for range rollbackAttempts {
		body, err := capture.PatchFor(observe.Of(state.Node), plan.Change(), in.Policy.Gate())
		if err != nil {
			return err
		}
		_, err = c.client.CoreV1().Nodes().Patch(ctx, state.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: rollbackManager, DryRun: o.option()})
		if !apierrors.IsConflict(err) {
			return c.failedWrite(c.toNodes("patch"), "Node "+state.Name, err)
		}
		if state.Node, err = c.node(ctx, state.Name); err != nil {
			return err
		}
		if state.Node == nil || state.Node.UID != uid {
			return fmt.Errorf("nothing was changed: Node %s has been deleted or replaced meanwhile", state.Name)
		}
		if again, err := view.RollbackTo(state, o.to, in); err != nil || !again.Same(plan) {
			return errors.Join(fmt.Errorf("nothing was changed: the labels or taints of Node %s have been changed meanwhile; look again", state.Name), err)
		}
	}
	return fmt.Errorf("nothing was changed: Node %s is written by others all the time, %d attempts came too late", state.Name, rollbackAttempts)
}
