package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// createPod creates a Pod of a test, which runs nodekeep with these arguments once.
func (c *cluster) createPod(t *testing.T, spec corev1.PodSpec, args ...string) *corev1.Pod {
	t.Helper()
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Containers = []corev1.Container{{Name: "nodekeep", Image: image, ImagePullPolicy: corev1.PullNever, Args: args}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Spec: spec}
	pod, err := c.Admin.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	return pod
}

// pod returns a Pod of a test as it is now.
func (c *cluster) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.Admin.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}

// untilPod waits until a Pod of a test is what it should be, and returns it as it is then.
func (c *cluster) untilPod(t *testing.T, name string, holds func(corev1.PodStatus) bool) (pod *corev1.Pod) {
	t.Helper()
	harness.Eventually(t, func() bool {
		pod = c.pod(t, name)
		return holds(pod.Status)
	}, settles, 20*time.Millisecond, "pod %s must end", name)
	return pod
}

func succeeded(status corev1.PodStatus) bool { return status.Phase == corev1.PodSucceeded }

// programs returns the processes of nodekeep in pods: their arguments, by their folders in /proc. There are others of that path: those by which the kubelet
// probes, and those of sandboxes, which have no arguments.
func programs(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	found := map[string][]string{}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"); err == nil && args[0] == "/nodekeep" && len(args) > 1 && args[1] != "probe" {
			found[filepath.Dir(file)] = args
		}
	}
	return found
}
