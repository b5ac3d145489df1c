package cli

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
)

// captures is what the Lease and Events tell of captures. What the caller may not read is taken to be well, and said.
func (c *cluster) captures(ctx context.Context) view.Captures {
	var known view.Captures
	lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, capture.LeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		known.Never = true
	case err != nil:
		c.say("Whether a capture runs is not known: %v", c.failed(access{verb: "get", group: coordinationv1.GroupName, resource: "leases", namespace: c.namespace}, err))
	default:
		known.Silent = view.SilentFor(lease, c.now())
	}
	if known.Refused, err = c.refusals(ctx); err != nil {
		c.say("What the API server has refused is not known: %v", c.failed(access{verb: "list", resource: "events", namespace: eventsOfNodes}, err))
	}
	return known
}

// eventsOfNodes is the namespace in which Events of objects are that have none.
const eventsOfNodes = metav1.NamespaceDefault

// refusals are the newest reports of refused labels, by Node object.
func (c *cluster) refusals(ctx context.Context) (map[types.UID]string, error) {
	refused, last := map[types.UID]string{}, map[types.UID]metav1.Time{}
	events := all(ctx, func(ctx context.Context, options metav1.ListOptions) ([]corev1.Event, metav1.ListMeta, error) {
		options.FieldSelector = fields.Set{"involvedObject.kind": "Node", "reason": capture.LabelRefused}.String()
		list, err := c.client.CoreV1().Events(eventsOfNodes).List(ctx, options)
		if err != nil {
			return nil, metav1.ListMeta{}, err
		}
		return list.Items, list.ListMeta, nil
	})
	for event, err := range events {
		if err != nil {
			return nil, err
		}
		if of, at := event.InvolvedObject.UID, newest(event); !at.Time.Before(last[of].Time) {
			refused[of], last[of] = event.Message, at
		}
	}
	return refused, nil
}

// newest is when an Event was last seen.
func newest(event corev1.Event) metav1.Time {
	if event.LastTimestamp.IsZero() {
		return metav1.NewTime(event.EventTime.Time)
	}
	return event.LastTimestamp
}
