package verification

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

const settles = harness.Settles

// kubelet plays the kubelet of one Node: it keeps the Node Ready, and gives each Pod on it the end that report says.
type kubelet struct {
	name   string
	client *kubernetes.Clientset

	mu      sync.Mutex
	report  func(asked []verify.Check) (message string, exitCode int32) // nil: Pods stay pending
	ended   map[types.UID]bool
	stopped bool   // the Node is not Ready
	bootID  string // empty: that of the registration
}

// honest reports that all that was asked passed.
func honest(asked []verify.Check) (string, int32) {
	return harness.WorkerReport(asked, verify.Passed, ""), 0
}

// failing reports that all that was asked failed.
func failing(asked []verify.Check) (string, int32) {
	return harness.WorkerReport(asked, verify.Failed, verify.ReasonTimeout), 1
}

// register registers a Node that the profile selects, and plays its kubelet until the end of the test.
func register(t *testing.T, name string, report func([]verify.Check) (string, int32)) *kubelet {
	t.Helper()
	return registerWith(t, name, map[string]string{selected: "checked"}, report)
}

func registerWith(t *testing.T, name string, labels map[string]string, report func([]verify.Check) (string, int32)) *kubelet {
	t.Helper()
	nodekeep.RegisterNode(t, harness.RegistrationWith(name, labels))
	return play(t, name, report)
}

// play plays the kubelet of a Node until the end of the test, then deletes the Node.
func play(t *testing.T, name string, report func([]verify.Check) (string, int32)) *kubelet {
	t.Helper()
	k := &kubelet{name: name, client: nodekeep.Kubelet(t, name), report: report, ended: map[types.UID]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		var beat time.Time
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			if time.Since(beat) > 5*time.Second {
				beat = time.Now()
				k.mu.Lock()
				k.heartbeat(ctx)
				k.mu.Unlock()
			}
			k.serve(ctx)
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
		_ = nodekeep.Admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return k
}

func (k *kubelet) reportWith(report func([]verify.Check) (string, int32)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report = report
}

// goes has the kubelet report that the Node is Ready or not, and which boot it runs.
func (k *kubelet) goes(ctx context.Context, stopped bool, bootID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped, k.bootID = stopped, bootID
	k.heartbeat(ctx)
}

// heartbeat says whether the Node is Ready. Errors are those of a Node that a test has deleted.
func (k *kubelet) heartbeat(ctx context.Context) {
	now := metav1.Now().UTC().Format(time.RFC3339)
	ready, info := "True", ""
	if k.stopped {
		ready = "False"
	}
	if k.bootID != "" {
		info = fmt.Sprintf(`"nodeInfo":{"bootID":%q},`, k.bootID)
	}
	patch := fmt.Sprintf(`{"status":{%s"conditions":[{"type":"Ready","status":%q,"reason":"KubeletReady","message":"","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, info, ready, now, now)
	_, _ = k.client.CoreV1().Nodes().Patch(ctx, k.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
}

// serve reports on each Pod of the Node once. A Pod that is being deleted ends.
func (k *kubelet) serve(ctx context.Context) {
	list, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + k.name})
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pod := range list.Items {
		pods := k.client.CoreV1().Pods(pod.Namespace)
		if pod.DeletionTimestamp != nil {
			_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			continue
		}
		if pod.Namespace != verify.Namespace || k.report == nil || k.ended[pod.UID] {
			continue
		}
		task, err := verify.ParseTask(pod.Spec.Containers[0].Env[0].Value)
		if err != nil {
			continue
		}
		message, code := k.report(task.Checks)
		if harness.EndWorker(ctx, k.client, &pod, message, code) == nil {
			k.ended[pod.UID] = true
		}
	}
}

func held(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == verify.Taint })
}

// workers returns the worker Pods and control Pods on a Node.
func workers(t *testing.T, name string) []corev1.Pod {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Pods(verify.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	require.NoError(t, err)
	return list.Items
}

func progress(node *corev1.Node) verify.Progress {
	return verify.ParseProgress(node.Annotations[verify.Annotation])
}

func waitFor(t *testing.T, name, subject string, holds func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		return holds(node)
	}, settles, 50*time.Millisecond, "node %s must come to be %s; it is %+v", name, subject, &node)
	return node
}

// waitOpen waits until a Node was opened in this round.
func waitOpen(t *testing.T, name string, round int) *corev1.Node {
	t.Helper()
	return waitFor(t, name, "open", func(node *corev1.Node) bool {
		return !held(node) && node.Labels[verify.Label] == "true" && progress(node).Round == round
	})
}

// warm has the cluster have a Node on which ordinary Pods can run, so that no check is skipped.
func warm(t *testing.T) {
	t.Helper()
	name := "warm-" + fmt.Sprint(time.Now().UnixNano())
	registerWith(t, name, nil, honest)
	waitFor(t, name, "without taints", func(node *corev1.Node) bool { return len(node.Spec.Taints) == 0 })
}

func background() context.Context { return context.Background() }
