package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestANodeWith500LabelsHasAllOfThemInItsCreate(t *testing.T) {
	const name = "many-labels"
	want := map[string]string{}
	for n := range 500 {
		want[fmt.Sprintf("label-%03d.example.com/%s", n, strings.Repeat("k", 63))] = strings.Repeat("v", 63)
	}
	nodekeep.RegisterRecorded(t, name, want)
	nodekeep.DeleteNode(t, name)
	began := time.Now()
	back := nodekeep.Register(t, name)
	t.Logf("registered after %s", round(time.Since(began)))
	assert.False(t, harness.Gated(back))
	assert.True(t, harness.HasAll(back.Labels, want))
	nodekeep.WaitRecorded(t, back, want)
}

func TestNoLabelValueAndNoTaintValueIsLogged(t *testing.T) {
	const name = "discreet"
	const secret = "distinct-value-4711"
	ofWebhook, ofCapture := logged(t, nodekeep.Cluster.LogPath(webhookProcess)), logged(t, nodekeep.Cluster.LogPath(captureProcess))
	want := map[string]string{"dedicated": secret, worker: secret, "conflict": secret + "-stored", "maintenance:NoExecute": secret}
	node := nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]string{"dedicated": secret, worker: secret, "conflict": secret + "-stored"})
	nodekeep.MergeNode(t, name, map[string]any{"spec": map[string]any{"taints": []map[string]string{{"key": "maintenance", "value": secret, "effect": "NoExecute"}}}})
	nodekeep.WaitRecorded(t, node, want)
	nodekeep.DeleteNode(t, name)
	_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.RegistrationWith(name, map[string]string{"conflict": secret + "-brought"}), metav1.CreateOptions{})
	require.NoError(t, err)
	nodekeep.WaitRestored(t, name, map[string]string{"dedicated": secret, worker: secret})
	nodekeep.WithoutWebhook(t, func() {
		nodekeep.DeleteNode(t, name)
		nodekeep.Register(t, name)
		nodekeep.WaitRestored(t, name, map[string]string{"dedicated": secret, worker: secret})
	})
	nodekeep.Label(t, name, map[string]string{"dedicated": secret + "-changed"})
	nodekeep.Label(t, name, map[string]any{"conflict": nil})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"dedicated": secret + "-changed", worker: secret, "maintenance:NoExecute": secret})

	for process, since := range map[string]func() string{"webhook": ofWebhook, "capture": ofCapture} {
		log := since()
		assert.NotContains(t, log, secret, process)
		t.Logf("%s logged %d bytes", process, len(log))
	}
	assert.Contains(t, ofCapture(), name, "it does log about the Node")
}
