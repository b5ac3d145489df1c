package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
)

func newGateCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newGroupCommand(&cobra.Command{
		Use:     "gate COMMAND",
		Short:   "Nodes that wait behind the gate: see and lift it",
		Long:    "The gate is the taint that keeps workloads off a Node while something is missing that it should carry.",
		GroupID: groupAct,
	}, newGateListCommand(streams), newGateLiftCommand(streams))
}

// gateListOptions are the flags of `gate list`.
type gateListOptions struct {
	*connection
	output
	policy policySource
}

func newGateListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &gateListOptions{connection: newConnection(streams), output: output{names: true}}
	command := newCommand(&cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "Which Nodes wait behind the gate, since when, why, and what to do about it",
		Long: `List shows the Nodes that wait behind the gate. GATED is how old the Node is: the gate is put on when a Node is made. WHY is
what capture would say: it is at it, it cannot read the record, it waits for a decision between two machines, the API server
refuses a label (as far as an Event tells), or no capture runs at all. The wide format lists what each Node lacks.`,
		Example: `
			# Who waits for what
			nodekeep gate list

			# How many there are
			nodekeep gate list --no-headers | wc -l`,
		Args: none,
	}, o.connection, o.run)
	o.output.addTo(command)
	o.policy.addTo(command)
	return command
}

func (o *gateListOptions) run(ctx context.Context, _ []string) error {
	if err := o.check(); err != nil {
		return err
	}
	c, err := o.open()
	if err != nil {
		return err
	}
	in, err := c.circumstances(ctx, &o.policy)
	if err != nil {
		return err
	}
	captures := c.captures(ctx)
	list := view.GatedList{Items: []view.Gated{}}
	for state, err := range c.allStates(ctx) {
		if err != nil {
			return err
		}
		if gated, is := view.GatedOf(state, in, captures); is {
			list.Items = append(list.Items, gated)
		}
	}
	switch {
	case o.format == "name":
		var names []string
		for _, gated := range list.Items {
			names = append(names, gated.Name)
		}
		return o.nodeNames(c.Out, names)
	case o.table() && len(list.Items) == 0:
		c.say("No Node waits behind the gate.")
		return nil
	default:
		return o.write(c, "GatedNodeList", list)
	}
}

// gateLiftOptions are the flags of `gate lift`.
type gateLiftOptions struct {
	*connection
	confirmation
	policy policySource
}

func newGateLiftCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &gateLiftOptions{connection: newConnection(streams)}
	command := newCommand(&cobra.Command{
		Use:   "lift NODE [flags]",
		Short: "Remove the gate from a Node although something may be missing",
		Long: `Lift removes the gate from a Node, from exactly the object and the state that were read. What the Node still lacks is shown first,
since workloads may then land on a Node without it. What is remembered stays as it is, and capture goes on to restore it where
it can.`,
		Example: `
			# A Node that is needed now, whatever it lacks
			nodekeep gate lift worker-4 --yes`,
		Args:              oneNode,
		ValidArgsFunction: completeNodes(o.connection),
	}, o.connection, o.run)
	o.policy.addTo(command)
	o.confirmation.addTo(command.Flags())
	return command
}

func (o *gateLiftOptions) run(ctx context.Context, args []string) error {
	c, name, err := o.openFor(args[0])
	if err != nil {
		return err
	}
	in, err := c.circumstances(ctx, &o.policy)
	if err != nil {
		return err
	}
	state, agreed, err := c.gated(ctx, name, in)
	if err != nil || agreed == nil {
		return err
	}
	if !o.yes {
		if err := (&output{format: formatTable}).document(c.ErrOut, agreed.Document(c.now())); err != nil {
			return err
		}
		if err := o.ask(ctx, c.IOStreams, "\n"+agreed.Question(state)); err != nil {
			return err
		}
	}
	for range tries {
		err := c.lift(ctx, state, in)
		if !otherState(err) {
			if err == nil {
				_, err = fmt.Fprintf(c.Out, "node/%s: gate lifted\n", name)
			}
			return err
		}
		var again *view.Gated
		if state, again, err = c.gated(ctx, name, in); err != nil || again == nil {
			return err
		}
		if !again.Same(*agreed) {
			break
		}
	}
	return errOvertaken
}

// gated looks at a Node; one that is not behind the gate is nil, and the person is told.
func (c *cluster) gated(ctx context.Context, name string, in capture.Circumstances) (view.NodeState, *view.Gated, error) {
	state, _, err := c.look(ctx, name)
	switch {
	case err != nil:
		return view.NodeState{}, nil, err
	case state.Node == nil:
		return view.NodeState{}, nil, fmt.Errorf("there is no Node %q", name)
	}
	gated, is := view.GatedOf(state, in, c.captures(ctx))
	if !is {
		_, err := fmt.Fprintf(c.Out, "node/%s is not behind the gate\n", name)
		return view.NodeState{}, nil, err
	}
	return state, &gated, nil
}

func (c *cluster) lift(ctx context.Context, state view.NodeState, in capture.Circumstances) error {
	patch, err := capture.PatchFor(observe.Of(state.Node), capture.Change{LiftGate: true}, in.Policy.Gate())
	if err != nil {
		return err
	}
	ctx, cancel := finish(ctx)
	defer cancel()
	_, err = c.client.CoreV1().Nodes().Patch(ctx, state.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "nodekeep-gate-lift"})
	return c.failedWrite(c.toNodes("patch"), "node "+state.Name, err)
}
