package cli

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
)

// rollbackManager owns the labels that a rollback sets on Nodes, and is named by the history for it.
const rollbackManager = "nodekeep-rollback"

// The values of --dry-run are kubectl's.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

func newRollbackCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	to, dryRun := 0, dryRunNone
	command := o.command(&cobra.Command{
		Use:   "rollback NODE --to NUMBER [flags]",
		Short: "Put the labels and taints of a Node back to a moment of its history",
		Long: `Rollback gives a live Node the labels and taints that it had after change NUMBER of its history, or with 0 before the first. Only
what has been changed since is touched. It shows what it would do and asks first.

It changes the Node as you would by kubectl, with your rights and as field manager ` + rollbackManager + `, and only in the state
that it has read; capture records the change as any other. What belongs to other components, or is ignored by the policy, is left
alone, and the exit code is 1 then.`,
		Example: `
			# What would be done
			nodekeep rollback worker-1 --to 1 --dry-run

			# Do it without asking
			nodekeep rollback worker-1 --to 1 --yes`,
		GroupID: groupAct,
	}, aboutNode|prints|decides|asks, func(ctx context.Context, c *cluster, args []string) error {
		type plan struct {
			state view.NodeState
			view.Rollback
		}
		var agreed plan
		err := change[plan]{
			read: func(ctx context.Context) (*plan, error) {
				state, err := c.live(ctx, args[0])
				if err != nil {
					return nil, err
				}
				rollback, err := view.RollbackTo(state, to, c.in)
				return &plan{state, rollback}, err
			},
			agree: func(ctx context.Context, p *plan) error {
				agreed = *p
				changes, _ := p.Changes()
				if err := o.write(c, "NodeRollback", p.Rollback); err != nil || changes == 0 || dryRun != dryRunNone {
					return err
				}
				return o.ask(ctx, c, fmt.Sprintf("Change Node %s like that?", args[0]))
			},
			same: func(agreed, again *plan) bool {
				return agreed.state.Node.UID == again.state.Node.UID && reflect.DeepEqual(agreed.Rollback, again.Rollback)
			},
			do: func(ctx context.Context, p *plan) error {
				options := metav1.PatchOptions{FieldManager: rollbackManager}
				changes, _ := p.Changes()
				switch {
				case changes == 0 || dryRun == dryRunClient:
					return nil
				case dryRun == dryRunServer:
					options.DryRun = []string{metav1.DryRunAll}
				}
				return c.patchNode(ctx, observe.Of(p.state.Node), p.Change(), c.in.Policy.Gate(), options)
			},
		}.run(ctx)
		if err != nil {
			return err
		}
		switch changes, leftAlone := agreed.Changes(); {
		case changes == 0 && leftAlone == 0:
			c.say("Node %s is as it was after change %d: nothing is to be done.", args[0], to)
			return nil
		case dryRun != dryRunNone:
			c.say("%s: %d labels and taints would be changed; nothing was (dry run).", args[0], changes)
		default:
			c.say("%s: %d labels and taints changed.", args[0], changes)
		}
		if _, leftAlone := agreed.Changes(); leftAlone > 0 {
			return findings(fmt.Errorf("%d labels and taints of Node %s were left alone, since they belong to others or the policy ignores them", leftAlone, args[0]))
		}
		return nil
	})
	command.Flags().IntVar(&to, "to", 0, "number of the change to go back to, as history shows it")
	_ = command.MarkFlagRequired("to")
	modes := []string{dryRunNone, dryRunServer, dryRunClient}
	oneOf(command, &dryRun, "dry-run", `"client": only show what would be done; "server": have the API server check it too, and store nothing`, modes...)
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	o.validate = func() error {
		if !slices.Contains(modes, dryRun) {
			return fmt.Errorf("--dry-run %q: must be one of %s", dryRun, strings.Join(modes, ", "))
		}
		return nil
	}
	return command
}
