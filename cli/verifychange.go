package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/verify"
)

// verifyNodeRights returns the rights to read a Node and to change its taints.
func verifyNodeRights(c *session, args []string) []doctor.Right {
	return []doctor.Right{c.NodeRight("get", args[0]), c.NodeRight("patch", args[0])}
}

func newVerifyReleaseCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = verifyNodeRights
	return o.changing(&cobra.Command{
		Use:   "release NODE [flags]",
		Short: "Let a Node take workloads although it is not verified",
		Long: `Release removes the taint of verification, from exactly the object and the state that were read. It says so in
the annotation ` + verify.Annotation + ` and in the Event ` + verify.EventReleased + `. The Node does not get the label of a
verified Node. It is not checked again before it registers again, or before nodekeep verify run.`,
		Example: `
			# A Node that is needed now, whatever its checks say
			nodekeep verify release worker-1 --yes`,
	}, aboutNode|decides|asks, func(ctx context.Context, c *session, args []string) (*proposal, error) {
		node, err := c.RequireNode(ctx, args[0])
		if err != nil {
			return nil, err
		}
		held := c.in.Policy.Verify().ClosingTaints(node.Spec.Taints)
		v := view.VerificationOf(node, nil, nil, c.in.Policy, c.Now())
		switch {
		case len(held) == 0 && v.Cause == verify.CauseKeyChanged:
			return nil, fmt.Errorf("nothing was changed: %s", v.Reason)
		case len(held) == 0:
			return nil, c.printResult("node/%s has no taint of verification", args[0])
		}
		return &proposal{question: view.ReleaseQuestion(v), fingerprint: [2]string{string(node.UID), strings.Join(v.Taints, ",")}, apply: func(ctx context.Context) error {
			if err := c.patchNode(ctx, observe.FromNode(node), releasePlan(node, held, c.Now()), metav1.PatchOptions{FieldManager: releaseManager}); err != nil {
				return err
			}
			c.createEvent(ctx, node, corev1.EventTypeWarning, verify.EventReleased, releasedByOperator)
			return c.printResult("node/%s: released without verification", args[0])
		}}, nil
	})
}

// releasedByOperator is what the Node and the Event say.
const releasedByOperator = "an operator released the Node: nodekeep verify release"

// releasePlan returns the change that lets a Node take workloads, and shows that an operator did.
func releasePlan(node *corev1.Node, held []corev1.Taint, now time.Time) plan.Plan {
	change := removeTaintsPlan(held)
	progress := verify.ParseProgress(node.Annotations[verify.Annotation]).ReleasedBy(releasedByOperator, now.UTC())
	change.Edits = append(change.Edits, plan.Set(plan.Record, map[string]string{record.AnnotationKey(verify.Annotation): progress.String()})...)
	return change
}

// eventComponent is where Events of the commands come from.
const eventComponent = "nodekeep"

// createEvent writes an Event about what a command did to a Node. The change is made by then: without the right it is only said that nobody else sees it.
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
		c.say("No Event shows this: %v", c.CallError(doctor.Right{Verb: "create", Resource: "events", Namespace: doctor.EventsNamespace}, err))
	}
}
