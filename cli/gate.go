package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
)

func newGateCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newGroupCommand(&cobra.Command{
		Use:     "gate COMMAND",
		Short:   "Nodes that wait behind the gate: see and lift it",
		Long:    "The gate is the taint that keeps workloads off a Node while something is missing that it should carry.",
		GroupID: groupAct,
	}, newGateListCommand(streams), newGateLiftCommand(streams))
}

func newGateListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.names, o.rights = true, rightsForAll
	return o.command(&cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "Which Nodes wait behind the gate, since when, why, and what to do about it",
		Long: `List shows the Nodes that wait behind the gate. GATED is how old the Node is: the gate is added when a Node is
created. WHY is what capture would say. capture works on the Node, cannot read the record, or waits for a decision
between two machines. WHY also says if the API server refuses a label, as far as an Event shows it. It also says if no
capture runs at all. The wide format lists what each Node lacks.`,
		Example: `
			# Who waits for what
			nodekeep gate list

			# How many there are
			nodekeep gate list --no-headers | wc -l`,
	}, prints|decides, func(ctx context.Context, c *session, _ []string) error {
		c.emergencyDeclared(ctx)
		captures := c.captures(ctx)
		list := view.GatedList{Items: []view.Gated{}}
		for state, err := range c.ListStates(ctx) {
			if err != nil {
				return err
			}
			if gated, ok := view.GatedOf(state, c.in, captures); ok {
				list.Items = append(list.Items, gated)
			}
		}
		if o.table() && len(list.Items) == 0 {
			c.say("No Node waits behind the gate.")
			return nil
		}
		return o.write(c, "GatedNodeList", list)
	})
}

func newGateLiftCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = func(c *session, args []string) []doctor.Right {
		return append(c.nodeAndRecordRights(args[0]), c.NodeRight("patch", args[0]))
	}
	return o.changing(&cobra.Command{
		Use:   "lift NODE [flags]",
		Short: "Remove the gate from a Node although something may be missing",
		Long: `Lift removes the gate from a Node, from exactly the object and the state that were read. What the Node still lacks is
shown first, since workloads may then land on a Node without it. The record stays as it is, and capture goes on to
restore it where it can.`,
		Example: `
			# A Node that is needed now, whatever it lacks
			nodekeep gate lift worker-4 --yes`,
	}, aboutNode|decides|asks, func(ctx context.Context, c *session, args []string) (*proposal, error) {
		state, err := c.GetState(ctx, args[0])
		switch {
		case err != nil:
			return nil, err
		case state.Node == nil:
			return nil, fmt.Errorf("there is no Node %q", args[0])
		}
		gated, ok := view.GatedOf(state, c.in, c.captures(ctx))
		if !ok {
			return nil, c.printResult("node/%s is not behind the gate", args[0])
		}
		return &proposal{document: gated.Document(c.Now()), question: "\n" + gated.Question(state), fingerprint: gated.Lacks(), apply: func(ctx context.Context) error {
			if err := c.patchNode(ctx, observe.FromNode(state.Node), plan.Plan{Edits: plan.Lift(c.gate), ByClient: true}, metav1.PatchOptions{FieldManager: "nodekeep-gate-lift"}); err != nil {
				return err
			}
			return c.printResult("node/%s: gate lifted", args[0])
		}}, nil
	})
}

// leading returns what the Lease shows of captures. What the caller may not read is taken to be well, with a message for the caller.
func (c *session) leading(ctx context.Context) (known view.Captures) {
	leader, err := c.GetLeadership(ctx, capture.LeaseName, c.Now)
	switch {
	case apierrors.IsNotFound(err):
		known.Unstarted = !c.hasReadyPod(ctx, captureName)
	case err != nil:
		c.sayUnknown("Whether a capture runs", c.CallError(c.LeaseRight(capture.LeaseName), err))
	default:
		known.Silent = leader.Silent()
	}
	return known
}

// captures returns what the Lease and Events show of captures.
func (c *session) captures(ctx context.Context) view.Captures {
	known := c.leading(ctx)
	known.Refused = map[types.UID]string{}
	last := map[types.UID]metav1.Time{}
	refusals := metav1.ListOptions{FieldSelector: fields.Set{"involvedObject.kind": "Node", "reason": capture.LabelRefused}.String()}
	for event, err := range cluster.List[*corev1.Event](ctx, c.Cluster, c.EventsRight(), c.Client.CoreV1().Events(doctor.EventsNamespace), refusals) {
		if err != nil {
			c.sayUnknown("What the API server has refused", err)
			known.Refused = nil
			break
		}
		eventTime := event.LastTimestamp
		if eventTime.IsZero() {
			eventTime = metav1.NewTime(event.EventTime.Time)
		}
		if uid := event.InvolvedObject.UID; !eventTime.Time.Before(last[uid].Time) {
			known.Refused[uid], last[uid] = event.Message, eventTime
		}
	}
	return known
}
