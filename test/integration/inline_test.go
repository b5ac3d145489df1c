package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

const inlinePolicy = "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  labels: {protected: inline}\n"

// withPolicy does something under another policy, which the running processes follow.
func withPolicy(t *testing.T, content string, fn func()) {
	t.Helper()
	shipped := nodekeep.Policy(t)
	nodekeep.SetPolicy(t, content)
	defer nodekeep.SetPolicy(t, shipped)
	fn()
}

// proved waits for the result of the self-test.
func proved(t *testing.T, want string, metricValue float64) {
	t.Helper()
	var body string
	require.Eventually(t, func() bool {
		_, body = harness.Readiness(nodekeep.ReadyURL("webhook"))
		return strings.Contains(body, "[+] protected labels: "+want)
	}, settles, 50*time.Millisecond, "%s", &body)
	assert.InDelta(t, metricValue, metric(t, "webhook", "nodekeep_webhook_inline_proved"), 0)
}

// TestInline holds the tests of the inline route, which needs another installation of the webhook.
func TestInline(t *testing.T) {
	withPolicy(t, inlinePolicy, func() {
		t.Run("without its webhook configuration the webhook defers protected labels", inlineFallsBackToDeferred)
		nodekeep.WithInline(t, func() {
			proved(t, "inline", 1)
			t.Run("protected labels are in the kubelet's own CREATE", protectedLabelsAreInTheKubeletsOwnCreate)
			t.Run("so are protected labels of rules, and taints that follow from labels of rules", protectedLabelsOfRulesAreInTheKubeletsOwnCreate)
			t.Run("a label that an admission policy denies to kubelets is deferred", func(t *testing.T) {
				want := map[string]string{judged: "ci", "rack": "r1", worker: ""}
				nodekeep.RegisterRecorded(t, "judged-inline", want)
				denyingKubelets(t, func() {
					deniedThenDeferred(t, "judged-inline", "protected: inline", want, map[string]string{worker: ""})
				})
			})
		})
	})
}

func protectedLabelsAreInTheKubeletsOwnCreate(t *testing.T) {
	const name = "inline-1"
	want := map[string]string{"dedicated": "ci", worker: "", "node-role.kubernetes.io/gpu": "a"}
	keys := []string{"dedicated", worker, "node-role.kubernetes.io/gpu"}
	nodekeep.RegisterRecorded(t, name, want)
	nodekeep.WithoutCapture(t, func() {
		for range 20 {
			nodekeep.DeleteNode(t, name)
			returned := nodekeep.Register(t, name)
			assert.True(t, harness.HasAll(returned.Labels, want), "%v", returned.Labels)
			assert.False(t, harness.Gated(returned))
			assert.ElementsMatch(t, keys, givenTo(t, returned))
		}
		// The strip policy acts on this one, and must not act again on what the webhook added.
		nodekeep.DeleteNode(t, name)
		forging := harness.Registration(name)
		forging.Annotations = map[string]string{policy.StampAnnotation: `{"given":{"` + worker + `":{"value":""}}}`}
		returned := nodekeep.RegisterNode(t, forging)
		assert.True(t, harness.HasAll(returned.Labels, want), "%v", returned.Labels)
		assert.ElementsMatch(t, keys, givenTo(t, returned))
	})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), want)

	_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
	assert.ErrorContains(t, err, "already exists", "a restarted kubelet gets past admission")
}

func protectedLabelsOfRulesAreInTheKubeletsOwnCreate(t *testing.T) {
	const name = "inline-rules"
	withPolicy(t, strings.Replace(rulesPolicy, "  labels:\n", "  labels:\n    protected: inline\n", 1), func() {
		want := map[string]string{"accelerator": "nvidia-gpu", "gpu.count": "2", gpuWorker: "", "hardware.tier": "dual-gpu"}
		nodekeep.Register(t, name)
		reports(t, name, "2", longReady())
		nodekeep.Label(t, name, map[string]string{worker: ""})
		becomes(t, name, want)
		recordComes(t, name, func(r record.Record) bool {
			_, recorded := r.RuleLabels[gpuWorker]
			return recorded && r.RuleLabels["gpu.count"].Value == "2" && r.RuleLabels["hardware.tier"].Value == "dual-gpu"
		})
		nodekeep.WithoutCapture(t, func() {
			for range 5 {
				nodekeep.DeleteNode(t, name)
				returned := nodekeep.Register(t, name) // its device plugin has not registered yet
				assert.Equal(t, want, ruled(returned))
				assert.Contains(t, returned.Labels, worker)
				assert.False(t, harness.Gated(returned))
				assert.Contains(t, harness.TaintsOf(returned), "accelerator=nvidia-gpu:NoSchedule")
			}
		})
		becomes(t, name, want)
	})
}

func inlineFallsBackToDeferred(t *testing.T) {
	const name = "inline-2"
	want := map[string]string{"dedicated": "ci", worker: ""}
	nodekeep.RegisterRecorded(t, name, want)
	proved(t, "deferred although the policy says inline", 0)
	nodekeep.DeleteNode(t, name)
	returned := nodekeep.Register(t, name)
	assert.NotContains(t, returned.Labels, worker)
	assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints))
	nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
}
