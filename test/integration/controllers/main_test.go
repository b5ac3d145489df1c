package controllers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation of this package, and objects is a client of an admin for kinds of other projects.
var (
	nodekeep *harness.Installation
	objects  dynamic.Interface
)

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{Scheduler: true}, func(i *harness.Installation) {
		nodekeep = i
		i.TimeoutSeconds = harness.Patient
		objects = dynamic.NewForConfigOrDie(i.Cluster.Admin())
		// Pods need the ServiceAccount that the controller manager makes elsewhere.
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := i.Admin.CoreV1().ServiceAccounts("default").Create(context.Background(), account, metav1.CreateOptions{}); err != nil {
			panic(err)
		}
	}))
}

// program starts a controller, which is built from the module in a folder of test/programs, and applies files of a module that it depends on. It ends
// with the test.
func program(t *testing.T, folder, target, module string, files, env []string) {
	t.Helper()
	dir := filepath.Join(harness.Root(), "test", "programs", folder)
	run := func(args ...string) string {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		var problem strings.Builder
		command.Stderr = &problem
		out, err := command.Output()
		require.NoError(t, err, "%s", &problem)
		return strings.TrimSpace(string(out))
	}
	binary := filepath.Join(nodekeep.Cluster.Dir(), folder)
	if _, err := os.Stat(binary); err != nil {
		run("build", "-ldflags", "-s -w", "-o", binary, target)
	}
	source := run("list", "-m", "-f", "{{.Dir}}", module)
	for _, file := range files {
		path := filepath.Join(source, filepath.FromSlash(file))
		nodekeep.MustKubectl(t, "apply", "--server-side", "-f", path)
		require.Eventually(t, func() bool {
			_, err := nodekeep.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "-f", path)
			return err == nil
		}, harness.Settles, 100*time.Millisecond, path)
	}
	process, err := nodekeep.Cluster.Go(folder, binary, nil, append(env, "KUBECONFIG="+nodekeep.AdminKubeconfig())...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Kill()) })
}

// restorePolicy has the policy be again what it is now when the test ends.
func restorePolicy(t *testing.T) {
	t.Helper()
	head := nodekeep.Policy(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
}

// apply applies manifests as an operator does.
func apply(t *testing.T, manifests string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifests), 0o600))
	nodekeep.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "-f", file)
}

// condition returns a condition of an object as "STATUS REASON"; empty where there is none.
func condition(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c["status"], " ", c["reason"])
		}
	}
	return ""
}

// playKubelets plays the kubelets of all Nodes, and what frees a Node that is ready, until the test ends.
func playKubelets(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			beat(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// beat has each Node ready, and each deleted pod gone. What fails is tried again at the next one.
func beat(ctx context.Context) {
	nodes, err := nodekeep.Admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !ready(node) {
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now()}}
			_, _ = nodekeep.Admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{FieldManager: "kubelet"})
			continue
		}
		if taints := harness.WithoutTaint(node.Spec.Taints, corev1.TaintNodeNotReady+":NoSchedule"); len(taints) < len(node.Spec.Taints) {
			node.Spec.Taints = taints
			_, _ = nodekeep.Admin.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{FieldManager: "kube-controller-manager"})
		}
	}
	pods, err := nodekeep.Admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			_ = nodekeep.Admin.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		}
	}
}

// ready reports whether a kubelet of this test has said that its Node is ready.
func ready(node *corev1.Node) bool {
	return len(node.Status.Conditions) > 0 && node.Status.Conditions[0].Status == corev1.ConditionTrue
}

// run makes a pod, until the test ends, that runs only on Nodes with these labels, and tolerates no taint but these, named by their keys.
func run(t *testing.T, name string, selector map[string]string, tolerated ...string) {
	t.Helper()
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("10Mi")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeSelector: selector,
		Containers:   []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: little}}},
	}}
	for _, key := range tolerated {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	_, err := nodekeep.Admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { // Karpenter may have evicted it
		_ = nodekeep.Admin.CoreV1().Pods("default").Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}

// bound waits until the scheduler has bound a pod, and returns the Node's name.
func bound(t *testing.T, pod string) (node string) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := nodekeep.Admin.CoreV1().Pods("default").Get(t.Context(), pod, metav1.GetOptions{})
		if err == nil {
			node = p.Spec.NodeName
		}
		return node != ""
	}, harness.Settles, 100*time.Millisecond, "pod %s must be bound", pod)
	return node
}
