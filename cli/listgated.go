package cli

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
)

const waitingGateHelp = `With --waiting gate, GATED is how old the Node is: the gate is added when a Node is created. WHY is the reason: capture
is still at work on the Node, cannot read the record, or waits for a decision between two machines. WHY also says if the
API server refuses a label, as far as an Event shows it, or if no capture runs at all. The wide format lists what each
Node lacks.`

// listGated shows the Nodes that wait behind the gate.
func (o *listOptions) listGated(ctx context.Context, c *session) error {
	c.applyEmergency(ctx)
	captures := c.captureStatus(ctx)
	list := view.GatedList{Items: []view.Gated{}}
	for state, err := range c.ListStates(ctx) {
		if err != nil {
			return err
		}
		if gated, ok := view.GatedOf(state, c.inputs, captures); ok && state.Selected(o.selector) {
			list.Items = append(list.Items, gated)
		}
	}
	if o.isText() && len(list.Items) == 0 {
		c.say("No Node%s waits behind the gate.", o.selectionSuffix())
		return nil
	}
	return o.write(c, "GatedNodeList", list)
}

// selectionSuffix returns what a sentence about no Nodes adds if a selector was given.
func (o *listOptions) selectionSuffix() string {
	if o.selector.Empty() {
		return ""
	}
	return " with these labels"
}

// captureLeader returns what the Lease shows of captures. If it cannot be read, a capture is taken to run, and a message says so.
func (c *session) captureLeader(ctx context.Context) (known view.CaptureStatus) {
	leader, err := c.GetLeadership(ctx, capture.LeaseName, c.Now)
	switch {
	case apierrors.IsNotFound(err):
		known.NeverLed = !c.hasReadyPod(ctx, captureComponent)
	case err != nil:
		c.sayUnknown("Whether a capture runs", c.ExplainError(c.LeaseRight(capture.LeaseName), err))
	default:
		known.LeaderlessFor = leader.LeaderlessFor()
	}
	return known
}

// captureStatus returns what the Lease and Events show of captures.
func (c *session) captureStatus(ctx context.Context) view.CaptureStatus {
	known := c.captureLeader(ctx)
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
