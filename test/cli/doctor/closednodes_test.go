package doctor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestANodeOnWhichAnotherClientUndoesWhatCaptureSetsIsFound(t *testing.T) {
	rollAll(t)
	const name = "doctor-paused"
	register(t, name)
	defer run(t, "kubectl delete node "+name)
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
	run(t, "kubectl -n default delete event "+name)
}

func TestThatNothingIsInstalledIsOneRowWithTheCommandToInstallIt(t *testing.T) {
	empty := harness.ForTest(t, harness.Options{})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(kubeconfig, empty.Admin()))
	a := nodekeep.Shell(t, kubeconfig, "", "nodekeep doctor")
	assert.Equal(t, 1, a.Code, a.ErrOut)
	assert.Equal(t, "1 finding, 0 unknown\n", a.ErrOut)
	assert.Equal(t, golden(t, "nothing-installed", func() string { return a.Out }), a.Out)
}
