package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// lastEvents is how long a stopping process waits for its Events to be written, at most.
const lastEvents = time.Second

// lastReason marks the Event that is behind all others. It shows that these are written, and is not written itself.
const lastReason = "Last"

// newEvents makes a recorder of Events that are written in the background. The process calls flush once, at its end.
func newEvents(client kubernetes.Interface, component string) (events record.EventRecorder, flush func()) {
	broadcaster := record.NewBroadcaster()
	sink := lastSink{&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, make(chan struct{})}
	broadcaster.StartRecordingToSink(sink)
	events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	return events, func() {
		events.Event(&corev1.ObjectReference{Kind: "Process", Name: component}, corev1.EventTypeNormal, lastReason, "")
		select {
		case <-sink.reached:
		case <-time.After(lastEvents):
		}
		broadcaster.Shutdown()
	}
}

// lastSink writes all Events but the last one.
type lastSink struct {
	record.EventSink
	reached chan struct{} // closed by the last one
}

func (s lastSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == lastReason {
		close(s.reached)
		return event, nil
	}
	return s.EventSink.Create(event)
}
