package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestANodeWith500LabelsHasAllOfThemInItsCreate(t *testing.T) {
	const name = "many-labels"
	want := map[string]string{}
	for n := range 500 {
		want[fmt.Sprintf("label-%03d.example.com/%s", n, strings.Repeat("k", 63))] = strings.Repeat("v", 63)
	}
	remembered(t, name, want)
	deleteNode(t, name)
	began := time.Now()
	back := register(t, name)
	t.Logf("registered after %s", round(time.Since(began)))
	assert.False(t, gated(back))
	assert.True(t, hasAll(back.Labels, want))
	remembers(t, back, want)
}

// logged is what a process has logged since a moment.
func logged(t testing.TB, process string) (since func() string) {
	t.Helper()
	path := nodekeep.Cluster.LogPath(process)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	return func() string {
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(now[len(before):])
	}
}

func TestNoLabelValueAndNoTaintValueIsLogged(t *testing.T) {
	const name = "discreet"
	const secret = "distinct-value-4711"
	ofWebhook, ofCapture := logged(t, "nodekeep-webhook"), logged(t, "nodekeep-capture")
	want := map[string]string{"dedicated": secret, worker: secret, "conflict": secret + "-stored", "maintenance:NoExecute": secret}
	node := register(t, name)
	label(t, name, map[string]string{"dedicated": secret, worker: secret, "conflict": secret + "-stored"})
	mergeNode(t, name, map[string]any{"spec": map[string]any{"taints": []map[string]string{{"key": "maintenance", "value": secret, "effect": "NoExecute"}}}})
	remembers(t, node, want)
	deleteNode(t, name)
	_, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, map[string]string{"conflict": secret + "-brought"}), metav1.CreateOptions{})
	require.NoError(t, err)
	complete(t, name, map[string]string{"dedicated": secret, worker: secret})
	withoutWebhook(t, func() {
		deleteNode(t, name)
		register(t, name)
		complete(t, name, map[string]string{"dedicated": secret, worker: secret})
	})
	label(t, name, map[string]string{"dedicated": secret + "-changed"})
	unlabel(t, name, "conflict")
	remembers(t, getNode(t, name), map[string]string{"dedicated": secret + "-changed", worker: secret, "maintenance:NoExecute": secret})

	for process, since := range map[string]func() string{"webhook": ofWebhook, "capture": ofCapture} {
		log := since()
		assert.NotContains(t, log, secret, process)
		t.Logf("%s logged %d bytes", process, len(log))
	}
	assert.Contains(t, ofCapture(), name, "it does log about the Node")
}
