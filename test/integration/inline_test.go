package integration

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

const inlinePolicy = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {protected: inline}\n"

// withPolicy does something under another policy file.
func withPolicy(t *testing.T, content string, do func()) {
	t.Helper()
	shipped, err := os.ReadFile(nodekeep.PolicyFile)
	require.NoError(t, err)
	writePolicy(t, content)
	defer writePolicy(t, string(shipped))
	do()
}

// writePolicy writes the policy file and waits until the processes have read it, good or not.
func writePolicy(t *testing.T, content string) {
	t.Helper()
	before, err := os.ReadFile(nodekeep.PolicyFile)
	require.NoError(t, err)
	if string(before) == content {
		return
	}
	names := []string{"nodekeep-webhook", "nodekeep-capture"}
	reads := map[string]int{}
	for _, name := range names {
		reads[name] = policyReads(t, name)
	}
	require.NoError(t, nodekeep.WritePolicy(content))
	for _, name := range names {
		require.Eventually(t, func() bool { return policyReads(t, name) > reads[name] }, settles, 50*time.Millisecond, "%s must read its policy again", name)
	}
}

// policyReads is how often a process has found its policy file changed.
func policyReads(t *testing.T, process string) int {
	t.Helper()
	log, err := os.ReadFile(nodekeep.Cluster.LogPath(process))
	require.NoError(t, err)
	return strings.Count(string(log), `msg="policy reloaded"`) + strings.Count(string(log), `msg="policy file cannot be used;`)
}

// asInline installs what `policy.labels.protected: inline` needs, and afterwards the default again.
func asInline(t *testing.T, do func()) {
	t.Helper()
	require.NoError(t, nodekeep.StopWebhook())
	require.NoError(t, nodekeep.Reapply(t.Context(), harness.InlineManifest))
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	defer func() {
		require.NoError(t, nodekeep.StopWebhook())
		require.NoError(t, nodekeep.Reapply(context.WithoutCancel(t.Context())))
		require.NoError(t, nodekeep.StartWebhook(context.WithoutCancel(t.Context())))
	}()
	do()
}

// proved waits for the result of the self-test.
func proved(t *testing.T, want string) {
	t.Helper()
	var body string
	require.Eventually(t, func() bool {
		status, verbose := read(t, nodekeep.ReadyURL("webhook")+"?verbose")
		body = verbose
		return status == http.StatusOK && strings.Contains(verbose, "[+] protected labels: "+want)
	}, settles, 100*time.Millisecond, "%s", &body)
}

func TestInlineProtectedLabelsAreInTheKubeletsOwnCreate(t *testing.T) {
	const name = "inline-1"
	want := map[string]string{"dedicated": "ci", worker: "", "node-role.kubernetes.io/gpu": "a"}
	rememberedNode(t, name, want)
	withPolicy(t, inlinePolicy, func() {
		asInline(t, func() {
			proved(t, "inline")
			_, body := read(t, nodekeep.MetricsURL("webhook"))
			assert.Contains(t, body, "nodekeep_webhook_inline_proved 1")
			withoutCapture(t, func() {
				for range 20 {
					deleteNode(t, name)
					back := register(t, name)
					assert.True(t, hasAll(back.Labels, want), "%v", back.Labels)
					assert.False(t, policy.DefaultGate.On(back.Spec.Taints))
					assert.ElementsMatch(t, []string{"dedicated", worker, "node-role.kubernetes.io/gpu"}, givenTo(t, back))
				}
				// The strip policy acts on this one, and must not act again on what the webhook added.
				deleteNode(t, name)
				forging := registration(name, nil)
				forging.Annotations = map[string]string{policy.StampAnnotation: `{"given":{"` + worker + `":{"value":""}}}`}
				back, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), forging, metav1.CreateOptions{})
				require.NoError(t, err)
				assert.True(t, hasAll(back.Labels, want), "%v", back.Labels)
				assert.ElementsMatch(t, []string{"dedicated", worker, "node-role.kubernetes.io/gpu"}, givenTo(t, back))
			})
			remembers(t, getNode(t, name), want)

			_, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
			assert.ErrorContains(t, err, "already exists", "a restarted kubelet gets past admission")
		})
	})
}

func TestInlineFallsBackToDeferredWhereItIsNotProved(t *testing.T) {
	const name = "inline-2"
	want := map[string]string{"dedicated": "ci", worker: ""}
	rememberedNode(t, name, want)
	withPolicy(t, inlinePolicy, func() { // and the plain configuration, which has one pass only
		proved(t, "deferred although the policy says inline")
		_, body := read(t, nodekeep.MetricsURL("webhook"))
		assert.Contains(t, body, "nodekeep_webhook_inline_proved 0")
		deleteNode(t, name)
		back := register(t, name)
		assert.NotContains(t, back.Labels, worker)
		assert.True(t, policy.DefaultGate.Holds(back.Spec.Taints))
		remembers(t, complete(t, name, want), want)
	})
}

func TestTheWebhookMayActAsTheSelfTestsKubeletOnly(t *testing.T) {
	asInline(t, func() { actsAsTheSelfTestsKubeletOnly(t) })
}

func actsAsTheSelfTestsKubeletOnly(t *testing.T) {
	t.Helper()
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-webhook")
	require.NoError(t, err)
	for user, allowed := range map[string]bool{"system:node:nodekeep-self-test": true, "system:node:worker-1": false, "admin": false} {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:nodes"}}
		client, err := kubernetes.NewForConfig(as)
		require.NoError(t, err)
		node := registration("nodekeep-self-test", nil)
		_, err = client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if allowed {
			require.NoError(t, err)
			_, err = client.CoreV1().Nodes().Create(t.Context(), registration("worker-1", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		}
		require.Error(t, err, user)
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:nodekeep-self-test", Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(as)
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	assert.Error(t, err)
}
