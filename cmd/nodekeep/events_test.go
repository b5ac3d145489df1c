package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestEventsThatAreRecordedBeforeTheEndAreWritten(t *testing.T) {
	client := fake.NewClientset()
	events, flush := newEvents(client, "nodekeep-capture")
	for _, node := range []string{"a", "b", "c"} {
		events.Event(&corev1.ObjectReference{Kind: "Node", Name: node}, corev1.EventTypeNormal, "GateLifted", "text")
	}
	flush()
	written, err := client.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var nodes []string
	for _, event := range written.Items {
		nodes = append(nodes, event.InvolvedObject.Name)
	}
	assert.ElementsMatch(t, []string{"a", "b", "c"}, nodes, "and not the one that shows the end")
}
