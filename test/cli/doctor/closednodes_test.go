package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
)

func TestANodeOnWhichAnotherClientUndoesWhatCaptureSetsIsFound(t *testing.T) {
	rollAll(t)
	const name = "doctor-paused"
	register(t, name)
	defer do(t, "kubectl delete node "+name)
	node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Reason: capture.ItemPaused, Type: corev1.EventTypeWarning, Message: "two clients fight",
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: name, UID: node.UID}, LastTimestamp: metav1.Now(),
	}
	_, err = nodekeep.Admin.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), event, metav1.CreateOptions{})
	require.NoError(t, err)
	runs(t, finds(t, "paused-items"), "kubectl get events ")

	event.LastTimestamp = metav1.NewTime(time.Now().Add(-2 * time.Hour))
	_, err = nodekeep.Admin.CoreV1().Events(metav1.NamespaceDefault).Update(t.Context(), event, metav1.UpdateOptions{})
	require.NoError(t, err)
	isHealthy(t)
	do(t, "kubectl -n default delete event "+name)
}
