package local

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/test/harness"
)

// kubeletBinary is the name of the program.
const kubeletBinary = "kubelet"

// kubelet is a real kubelet and its container runtime. The containers run on while the kubelet is stopped, as on any machine.
type kubelet struct {
	name string // of its Node

	cluster *cluster
	address string
	folder  string
	socket  string
	noImage bool // taken away
}

// The names of the processes, and of their logs.
func (k *kubelet) process() string { return kubeletBinary + "-" + k.name }
func (k *kubelet) runtime() string { return "runtime-" + k.name }
func (k *kubelet) devices() string { return "devices-" + k.name }

// startContainers starts the container runtime and waits until it has the images. What ran in it before has ended.
func (k *kubelet) startContainers(t *testing.T) {
	t.Helper()
	k.cluster.runs(t, k.runtime(), "runtime", "--folder="+k.disk(), "--socket="+k.socket, "--network="+k.network())
	k.loads(t, sandboxImage, archive(built(t), pauseFolder))
	k.loads(t, image, archive(built(t), binariesFolder))
}

// loads gives the container runtime an image, or takes it away if there is no file.
func (k *kubelet) loads(t *testing.T, name, file string) {
	t.Helper()
	k.cluster.tells(t, "image", "--socket="+k.socket, "--name="+name, "--archive="+file)
}

// stopContainers ends the container runtime and all containers, as if the machine were switched off.
func (k *kubelet) stopContainers(t *testing.T) {
	t.Helper()
	current := filepath.Join("/sys/fs/cgroup", k.name)
	require.NoError(t, os.WriteFile(filepath.Join(current, "cgroup.kill"), []byte("1"), 0))
	harness.Eventually(t, func() bool {
		state, err := os.ReadFile(filepath.Join(current, "cgroup.events"))
		require.NoError(t, err)
		return bytes.Contains(state, []byte("populated 0\n"))
	}, startTimeout, 10*time.Millisecond, "containers of %s must end", k.name)
	<-k.cluster.Cluster.Process(k.runtime()).Exited()
}

// removeDisk ends all containers and forgets them.
func (k *kubelet) removeDisk(t *testing.T) {
	k.stopContainers(t)
	require.NoError(t, unmount(k.disk()))
}

// disk returns a folder with all that the container runtime writes, on a file system of its own in memory.
func (k *kubelet) disk() string { return filepath.Join("/run/machine", k.name) }

// network returns the kubelet's address, and the range of its pods.
func (k *kubelet) network() string { return k.address + "/24" }

// startDevices starts a device plugin that offers count devices of a resource to the newest kubelet. All kubelets of this machine have their sockets
// in one folder.
func (k *kubelet) startDevices(t *testing.T, resource string, count int) {
	k.cluster.runs(t, k.devices(), "devices", "--resource="+resource, fmt.Sprintf("--count=%d", count))
}

func (k *kubelet) stopDevices(t *testing.T) { k.cluster.stops(t, k.devices()) }

//go:embed kubelet.yaml
var configuration string

// start starts the kubelet with further arguments. It returns at once; the Node registers by itself.
func (k *kubelet) start(t *testing.T, args ...string) {
	t.Helper()
	control := k.cluster.Cluster
	var content bytes.Buffer
	require.NoError(t, template.Must(template.New("kubelet.yaml").Parse(configuration)).Execute(&content, map[string]string{
		"Socket": k.socket, "Folder": k.folder, "Address": k.address, "Logs": filepath.Join(control.Dir(), "logs", "pods-"+k.name),
		"DNS": clusterDNS, "Domain": clusterDomain,
	}))
	file, kubeconfig := filepath.Join(k.folder, "kubelet.yaml"), filepath.Join(k.folder, "kubeconfig")
	require.NoError(t, os.WriteFile(file, content.Bytes(), 0o600))
	require.NoError(t, harness.WriteKubeconfig(kubeconfig, control.Kubelet(k.name)))
	_, err := control.Go(k.process(), harness.Binary(kubeletBinary), append([]string{
		"--config=" + file,
		"--kubeconfig=" + kubeconfig,
		"--root-dir=" + k.folder,
		"--cert-dir=" + filepath.Join(k.folder, "pki"),
		"--hostname-override=" + k.name,
		"--node-ip=" + k.address,
		"--v=2",
	}, args...))
	require.NoError(t, err)
}

// stop stops the kubelet and leaves its containers running.
func (k *kubelet) stop(t *testing.T) {
	t.Helper()
	k.cluster.stops(t, k.process())
}

// losesNode stops the kubelet and deletes its Node.
func (k *kubelet) losesNode(t *testing.T) {
	t.Helper()
	k.stop(t)
	k.cluster.DeleteNode(t, k.name)
}

// waitReady waits until the kubelet reports that its Node is ready for pods.
func (k *kubelet) waitReady(t *testing.T) {
	t.Helper()
	untilIt(t, k.cluster.Cluster.Process(k.process()), "makes its Node ready", func() bool {
		node, err := k.cluster.Admin.CoreV1().Nodes().Get(t.Context(), k.name, metav1.GetOptions{})
		return err == nil && ready(node)
	})
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// untilIt waits until a process does something. It fails the test at once if the process ends.
func untilIt(t *testing.T, process *harness.Process, subject string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, startTimeout, true, func(context.Context) (bool, error) {
		select {
		case <-process.Exited():
			return false, errors.New("it ended")
		default:
			return done(), nil
		}
	})
	require.NoError(t, err, "wait until %s %s; its log is %s", process.Name(), subject, process.LogPath())
}
