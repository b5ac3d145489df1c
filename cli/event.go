package cli

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// component is where Events of the commands come from.
const component = "nodekeep"

// report writes an Event about what a command did to a Node. The change is made by then: without the right it is only said that nobody else sees it.
func (c *cluster) report(ctx context.Context, node *corev1.Node, kind, reason, message string) {
	now := metav1.NewTime(c.now())
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: component + "-", Namespace: eventsOfNodes},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		Type:           kind, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: component},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if _, err := c.client.CoreV1().Events(eventsOfNodes).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		c.say("No Event shows this: %v", c.failed(access{verb: "create", resource: "events", namespace: eventsOfNodes}, err))
	}
}
