package faults

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

const captureProcess = "nodekeep-capture"

// alone has capture act at once: a killed leader's Lease would have to run out first.
const alone = "--leader-elect=false"

// captureThrough restarts capture, alone, so that it reaches the API server through a proxy, and at the end of the test as it
// was before.
func captureThrough(t testing.TB, args ...string) *proxy.Proxy {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	p, err := proxy.Start(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	route, captureArgs := nodekeep.Route, nodekeep.CaptureArgs
	t.Cleanup(func() {
		p.Break(nil)
		require.NoError(t, nodekeep.StopCapture())
		p.Stop()
		nodekeep.Route, nodekeep.CaptureArgs = route, captureArgs
		require.NoError(t, nodekeep.StartCapture(ctx))
	})
	require.NoError(t, nodekeep.StopCapture())
	nodekeep.Route = func(process string, direct *rest.Config) *rest.Config {
		if process == captureProcess {
			return p.Through(direct)
		}
		return direct
	}
	nodekeep.CaptureArgs = append([]string{alone}, args...)
	require.NoError(t, nodekeep.StartCapture(ctx))
	return p
}

// killCapture is kill -9.
func killCapture(t testing.TB) {
	t.Helper()
	require.NoError(t, nodekeep.Cluster.Process(captureProcess).Kill())
}

// underRules starts both processes anew with the policy rulesAndMore, and after the test with the shipped one.
func underRules(t testing.TB) {
	t.Helper()
	shipped, err := os.ReadFile(nodekeep.PolicyFile)
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	restart := func(content string) {
		require.NoError(t, nodekeep.StopCapture())
		require.NoError(t, nodekeep.StopWebhook())
		require.NoError(t, nodekeep.WritePolicy(content))
		require.NoError(t, nodekeep.Start(ctx))
	}
	t.Cleanup(func() { restart(string(shipped)) })
	restart(rulesAndMore)
}

// rulesAndMore is a policy that makes use of everything that can be put on a Node.
const rulesAndMore = `apiVersion: nodekeep.dev/v1alpha1
kind: Policy
taints:
  rules:
  - {selector: dedicated, taint: "dedicated={value}:NoSchedule"}
  register:
  - {taint: "node-ready/unverified=true:NoSchedule", nodeSelector: "example.com/verify=yes"}
`

// secondCapture starts one more capture beside the installed one, with its identity and way to the API server.
func secondCapture(t testing.TB, args ...string) (process *harness.Process, metrics string) {
	t.Helper()
	return extra(t, "capture", append([]string{"--policy", nodekeep.PolicyFile}, args...)...)
}

// extra starts one more process beside the installed ones and waits until it is ready.
func extra(t testing.TB, kind string, args ...string) (process *harness.Process, metrics string) {
	t.Helper()
	probes, metrics := aFreeAddress(t), aFreeAddress(t)
	process, err := nodekeep.Cluster.Go("second-"+kind, nodekeep.Binary(), append([]string{
		kind, "--kubeconfig", filepath.Join(nodekeep.Cluster.Dir(), "nodekeep-"+kind+".kubeconfig"), "--namespace", harness.Namespace,
		"--health-probe-bind-address", probes, "--metrics-bind-address", metrics,
	}, args...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = process.Stop() })
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + probes + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, settles, 20*time.Millisecond, "the second %s must become ready", kind)
	return process, "http://" + metrics + "/metrics"
}

func aFreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// series sums the series of a metrics page whose names begin so.
func series(t testing.TB, url, prefix string) (sum float64) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(body)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, prefix) {
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			require.NoError(t, err)
			sum += value
		}
	}
	return sum
}

// taint puts a taint on as an admin, as `kubectl taint` takes it: key=value:effect.
func taint(t testing.TB, name, text string) {
	t.Helper()
	added := parsedTaint(text)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node := getNode(t, name)
		taints := slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == added.Key && taint.Effect == added.Effect })
		return putTaints(t, node, append(taints, added))
	}))
}

// putTaints replaces the taints of the Node in exactly this state.
func putTaints(t testing.TB, node *corev1.Node, taints []corev1.Taint) error {
	_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, mustJSON(t, map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": taints},
	}), metav1.PatchOptions{FieldManager: "kubectl-taint"})
	return err
}

func parsedTaint(text string) corev1.Taint {
	rest, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
}

// derivedOf are the taints of a Node that nodekeep says it has derived from the labels.
func derivedOf(node *corev1.Node) []corev1.Taint {
	return policy.DerivedTaints(node.Annotations[policy.TaintsAnnotation])
}

// taintsOf are the taints of a Node as `kubectl taint` writes them, sorted, without what the API server puts on by itself.
func taintsOf(node *corev1.Node) []string {
	texts := []string{}
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			texts = append(texts, taint.ToString())
		}
	}
	slices.Sort(texts)
	return texts
}

// endState is a Node and its record, comparable with those of another Node that went through the same.
func endState(t testing.TB, name string) string {
	t.Helper()
	node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	found, ok := recordOf(t, name)
	stamp, _ := record.ParseStamp(node.Annotations[policy.StampAnnotation])
	text, err := json.MarshalIndent(map[string]any{
		"labels": node.Labels, "taints": taintsOf(node),
		"given": slices.Sorted(maps.Keys(stamp.Given)), "derived": node.Annotations[policy.TaintsAnnotation],
		"isRecorded": ok, "recordIsOfThisNode": found.Newest().UID == node.UID, "remembered": found.Items(), "gone": !found.DeletedAt.IsZero(),
	}, "", " ")
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), name, "NAME")
}

// quiet waits until nothing has changed on a Node and in its record for a while, and returns the state.
func quiet(t testing.TB, name string, is func() bool) string {
	t.Helper()
	require.Eventually(t, is, settles, 10*time.Millisecond, "node %s: %s", name, evaluated(func() string { return endState(t, name) }))
	last, since := endState(t, name), time.Now()
	for time.Since(since) < 300*time.Millisecond {
		time.Sleep(20 * time.Millisecond)
		if now := endState(t, name); now != last {
			last, since = now, time.Now()
		}
	}
	return last
}

// evaluated is a text that is made when it is printed.
type evaluated func() string

// String makes it.
func (e evaluated) String() string { return e() }

// nodeNames are count names with a common beginning.
func nodeNames(prefix string, count int) []string {
	names := make([]string, count)
	for n := range names {
		names[n] = prefix + "-" + strconv.Itoa(n+1)
	}
	return names
}

// neverLacking says of the states that a watch saw: none of the Node object could be scheduled to while it lacked something.
func neverLacking(t testing.TB, seen []*corev1.Node, uid types.UID, labels map[string]string, taints []string) {
	t.Helper()
	states := 0
	for _, node := range seen {
		if node.UID != uid {
			continue
		}
		states++
		if gated(node) {
			continue
		}
		if !hasAll(node.Labels, labels) {
			t.Errorf("node %s, version %s, could be scheduled to with labels %v, without %v", node.Name, node.ResourceVersion, node.Labels, labels)
		}
		for _, text := range taints {
			if !slices.Contains(taintsOf(node), text) {
				t.Errorf("node %s, version %s, could be scheduled to with taints %v, without %s", node.Name, node.ResourceVersion, taintsOf(node), text)
			}
		}
	}
	require.NotZero(t, states, "the watch must have seen the Node object")
}

// longFaults reports whether tests of minutes are asked for, and skips the test with a word about it otherwise.
func longFaults(t testing.TB) bool {
	t.Helper()
	if os.Getenv("NODEKEEP_LONG_FAULTS") != "1" {
		t.Skip("takes minutes: NODEKEEP_LONG_FAULTS=1 runs it, and so does make test-faults")
	}
	return true
}
