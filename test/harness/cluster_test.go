package harness_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestCluster(t *testing.T) {
	skipWithoutControlPlane(t)
	c, err := harness.StartCluster(t.Context(), harness.Options{Scheduler: true, ControllerManager: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	admin := client(t, c.Admin())

	t.Run("an admin lists Nodes, and there are none", func(t *testing.T) {
		nodes, err := admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, nodes.Items)
	})

	t.Run("a kubelet creates its own Node as manager kubelet", func(t *testing.T) {
		node := named("n1")
		node.Labels = map[string]string{"kubernetes.io/hostname": "n1"} // who sets nothing manages nothing
		node, err := client(t, c.Kubelet("n1")).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Len(t, node.ManagedFields, 1)
		assert.Equal(t, "kubelet", node.ManagedFields[0].Manager)
	})

	t.Run("a kubelet with a name of 253 characters creates its own Node", func(t *testing.T) {
		name := strings.Repeat(strings.Repeat("n", 49)+".", 5) + "end"
		require.Len(t, name, 253)
		_, err := client(t, c.Kubelet(name)).CoreV1().Nodes().Create(t.Context(), named(name), metav1.CreateOptions{})
		assert.NoError(t, err)
	})

	t.Run("NodeRestriction keeps a kubelet from a protected label", func(t *testing.T) {
		node := named("n3")
		node.Labels = map[string]string{"node-role.kubernetes.io/worker": ""}
		_, err := client(t, c.Kubelet("n3")).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		assert.ErrorContains(t, err, "is not allowed to set the following labels: node-role.kubernetes.io/worker")
	})

	t.Run("a kubelet cannot create the Node of another", func(t *testing.T) {
		_, err := client(t, c.Kubelet("n1")).CoreV1().Nodes().Create(t.Context(), named("n2"), metav1.CreateOptions{})
		assert.True(t, apierrors.IsForbidden(err), "%v", err)
	})

	t.Run("a ServiceAccount is known by its name and may do nothing yet", func(t *testing.T) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
		_, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
		require.NoError(t, err)
		config, err := c.ServiceAccount(t.Context(), "default", "robot")
		require.NoError(t, err)
		assert.Equal(t, "system:serviceaccount:default:robot", whoAmI(t, config))
		_, err = client(t, config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		assert.True(t, apierrors.IsForbidden(err), "%v", err)
	})

	t.Run("a ServiceAccount that does not exist has no config", func(t *testing.T) {
		_, err := c.ServiceAccount(t.Context(), "default", "nobody")
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
	})

	t.Run("a kubeconfig file carries the identity and only its owner reads it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
		require.NoError(t, harness.WriteKubeconfig(path, c.Kubelet("n1")))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		config, err := clientcmd.BuildConfigFromFlags("", path)
		require.NoError(t, err)
		assert.Equal(t, "system:node:n1", whoAmI(t, config))
	})

	t.Run("scheduler and controller manager take up work", func(t *testing.T) {
		node := named("n4")
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
		_, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		pods := admin.CoreV1().Pods("default")
		_, err = pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p1"},
			Spec: corev1.PodSpec{
				Containers:  []corev1.Container{{Name: "c", Image: "none"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			pod, err := pods.Get(t.Context(), "p1", metav1.GetOptions{})
			return err == nil && pod.Spec.NodeName == node.Name
		}, harness.Settles, 100*time.Millisecond)
	})

	t.Run("without a static policy the account of the webhook may change its configuration", func(t *testing.T) {
		require.NoError(t, thiefOf(t, c)(`[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]}]`))
	})

	watch, err := admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	t.Run("the API server returns on the same address with the same data", func(t *testing.T) {
		url, pid := c.URL(), c.Process("kube-apiserver").Pid()
		require.NoError(t, c.RestartAPIServer(t.Context()))
		assert.Equal(t, url, c.URL())
		assert.NotEqual(t, pid, c.Process("kube-apiserver").Pid())
		_, err = admin.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		assert.NoError(t, err)
	})

	t.Run("a stop leaves nothing behind", func(t *testing.T) {
		sleeper, err := c.Go("sleeper", "sleep", []string{"600"})
		require.NoError(t, err)
		_, err = c.Go("sleeper", "sleep", []string{"600"})
		require.ErrorContains(t, err, "a process of that name is running")
		pids := []int{sleeper.Pid()}
		for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"} {
			pids = append(pids, c.Process(name).Pid())
		}
		for _, pid := range pids {
			require.True(t, alive(t, pid))
		}
		require.NoError(t, c.Stop())
		for _, pid := range pids {
			assert.False(t, alive(t, pid))
		}
		assert.NoDirExists(t, c.Dir())
		require.NoError(t, c.Stop(), "a second time")
		_, err = c.Go("late", "sleep", []string{"600"})
		assert.ErrorContains(t, err, "the cluster is stopped")
	})
}

func skipWithoutControlPlane(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane: run without -short")
	}
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return c
}

func whoAmI(t *testing.T, config *rest.Config) string {
	t.Helper()
	review, err := client(t, config).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.UserInfo.Username
}

func named(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// alive asks the kernel. Only a process that has been waited for counts as gone.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	err = process.Signal(syscall.Signal(0))
	if errors.Is(err, os.ErrProcessDone) {
		return false
	}
	require.NoError(t, err)
	return true
}
