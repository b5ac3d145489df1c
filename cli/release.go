package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/verify"
)

// releaseManager is the field manager of the command.
const releaseManager = "nodekeep-release"

// releaseOptions are the flags of `release`.
type releaseOptions struct {
	*options
	from string // what the Node is released from; empty: all
}

const releaseLong = `Release lets a Node take workloads now, whatever it lacks and whether it is verified or not. It removes the gate and the
taints of verification, if the Node is still as it was read. What the Node lacks is shown first, since workloads may
then land on a Node without it.

The record stays as it is, and capture goes on to restore it where it can. A release from verification is noted in the
annotation ` + verify.Annotation + ` and in the Event ` + verify.EventReleased + `. The Node does not get the label of a verified
Node. It is checked again only when it registers again, or by nodekeep recheck.

With --from gate it lifts the gate alone. If the Node has not got its taint of verification yet, it gets it in the same
change, and is verified as usual. With --from verification it leaves the gate.`

const releaseExamples = `
	# A Node that is needed now, whatever it lacks and whatever its checks say
	nodekeep release worker-1 --yes

	# A Node that capture cannot complete; it is still to be verified
	nodekeep release worker-4 --from gate --yes`

func newReleaseCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &releaseOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "release NODE [flags]",
		Short:   "Let a Node take workloads now: lift its gate, and remove its taints of verification",
		Long:    releaseLong,
		Example: releaseExamples,
		GroupID: groupAct,
	}, takesNode|hasPolicy|hasConfirmation, o)
	addChoiceFlag(command, &o.from, "from", "release the Node only from "+waitingGate+", or only from "+waitingVerification, waitingGate, waitingVerification)
	return command
}

func (o *releaseOptions) validate() error {
	if o.from != "" && o.from != waitingGate && o.from != waitingVerification {
		return fmt.Errorf("--from %q: must be %s or %s", o.from, waitingGate, waitingVerification)
	}
	return nil
}

func (o *releaseOptions) rights(c *session, args []string) []doctor.Right {
	needed := []doctor.Right{c.NodeRight("get", args[0])}
	if o.from != waitingVerification {
		needed = append(needed, c.RecordRight("get", args[0]))
	}
	if !o.dryRun {
		needed = append(needed, c.NodeRight("patch", args[0]))
	}
	return needed
}

func (o *releaseOptions) run(ctx context.Context, c *session, args []string) error {
	return o.change(ctx, c, func(ctx context.Context) (*proposal, error) { return o.plan(ctx, c, args[0]) })
}

// plan looks at what keeps a Node closed.
func (o *releaseOptions) plan(ctx context.Context, c *session, name string) (*proposal, error) {
	state, err := o.state(ctx, c, name)
	if err != nil {
		return nil, err
	}
	release := view.Release{State: state}
	change := plan.Plan{ByClient: true}
	profiles, gated := c.inputs.Policy.Verify(), c.gate.Present(state.Node.Spec.Taints)
	closingTaints := profiles.ClosingTaints(state.Node.Spec.Taints)
	var missingTaints []corev1.Taint // of verification, that are not there yet
	if release.GateStays = gated && o.from == waitingVerification; gated && !release.GateStays {
		gatedNode, _ := view.GatedOf(state, c.inputs, c.captureStatus(ctx))
		release.Gated = &gatedNode
		missingRegistrationTaints := state.MissingRegistrationTaints(c.inputs)
		missingTaints = profiles.ClosingTaints(missingRegistrationTaints)
		if o.from != waitingGate {
			missingRegistrationTaints = policy.WithoutKeys(missingRegistrationTaints, missingTaints)
		}
		change.Edits = append(plan.LiftGate(c.gate), plan.TaintEdits(plan.CauseRegistrationTaint, false, missingRegistrationTaints...)...)
	}
	v := view.VerificationOf(state.Node, nil, nil, c.inputs.Policy, c.Now())
	if len(closingTaints)+len(missingTaints) > 0 {
		release.Verification, release.Opens = &v, o.from != waitingGate
	}
	if release.Opens {
		change.Edits = append(change.Edits, openingEdits(state.Node, closingTaints, c.Now())...)
	}
	ungated := state.Node.DeepCopy()
	ungated.Spec.Taints = slices.DeleteFunc(ungated.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == string(c.gate) })
	if left := view.VerificationOf(ungated, nil, nil, c.inputs.Policy, c.Now()); left.Cause == verify.CauseKeyChanged && o.from != waitingGate { // it has the taint of an earlier policy, which this command does not remove
		release.Remains = left.Reason
	}
	switch {
	case release.Gated != nil || release.Opens:
	case release.Remains != "":
		return nil, fmt.Errorf("nothing was changed: %s", release.Remains)
	case o.from == waitingGate:
		return nil, c.printResult("node/%s is not behind the gate", name)
	case o.from == waitingVerification:
		return nil, c.printResult("node/%s has no taint of verification", name)
	default:
		return nil, c.printResult("node/%s is neither behind the gate, nor has it a taint of verification", name)
	}
	return &proposal{document: release.Document(c.Now()), summary: release.Summary(), question: fmt.Sprintf("Release node %q?", name), fingerprint: release.Fingerprint(), apply: func(ctx context.Context) error {
		if err := c.patchNode(ctx, observe.FromNode(state.Node), change, metav1.PatchOptions{FieldManager: releaseManager}); err != nil {
			return err
		}
		if release.Opens {
			c.createEvent(ctx, state.Node, corev1.EventTypeWarning, verify.EventReleased, releasedByOperator)
		}
		if err := c.printResult("%s", release.Done()); err != nil || release.Remains == "" {
			return err
		}
		return asFindings(fmt.Errorf("node/%s stays closed: %s", name, release.Remains))
	}}, nil
}

// state reads a Node that exists, and its record where it counts.
func (o *releaseOptions) state(ctx context.Context, c *session, name string) (nodestate.State, error) {
	if o.from == waitingVerification {
		node, err := c.RequireNode(ctx, name)
		return nodestate.State{Name: name, Node: node}, err
	}
	state, err := c.GetState(ctx, name)
	if err == nil && state.Node == nil {
		err = fmt.Errorf("there is no Node %q", name)
	}
	return state, err
}

// releasedByOperator is what the Node and the Event say.
const releasedByOperator = "an operator released the Node: nodekeep release"

// openingEdits remove taints of verification, and note that an operator did.
func openingEdits(node *corev1.Node, taints []corev1.Taint, now time.Time) plan.Edits {
	progress := verify.ParseProgress(node.Annotations[verify.Annotation]).ReleasedBy(releasedByOperator, now.UTC())
	return append(plan.TaintEdits(plan.CauseDerivedTaint, true, taints...), plan.SetItems(plan.CauseRecord, map[string]string{record.AnnotationKey(verify.Annotation): progress.String()})...)
}

// eventComponent is where Events of the commands come from.
const eventComponent = "nodekeep"

// createEvent writes an Event about what a command did to a Node. The change is made by then: without the right to
// write it, a message says so, and the command succeeds.
func (c *session) createEvent(ctx context.Context, node *corev1.Node, kind, reason, message string) {
	now := metav1.NewTime(c.Now())
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: eventComponent + "-", Namespace: doctor.EventsNamespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		Type:           kind, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: eventComponent},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if _, err := c.Client.CoreV1().Events(doctor.EventsNamespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		c.say("No Event shows this: %v", c.ExplainError(doctor.Right{Verb: "create", Resource: "events", Namespace: doctor.EventsNamespace}, err))
	}
}
