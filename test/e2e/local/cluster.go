package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

// image is the nodekeep image, as pods name it, and sandboxImage that of pods' sandboxes. They cannot be pulled from anywhere.
const (
	image        = "nodekeep:test"
	sandboxImage = "pause:test"
)

// cluster is a control plane and the kubelets that were added to it. The installation knows no processes of nodekeep: these run in pods.
type cluster struct {
	*harness.Installation
	// kubeconfig is the path of a kubeconfig for an admin.
	kubeconfig string
	// audit has every registration of a Node.
	audit auditLog

	services *services
	kubelets int
}

// forTest starts a control plane without kubelets, which lives as long as the test. It skips the test where there can be no kubelets. There may be one
// cluster at a time.
func forTest(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv(askedVariable) == "" {
		t.Skip("real kubelets take some fifteen minutes, and are no part of make test: make e2e-local")
	}
	if testing.Short() {
		t.Skip("needs a kubelet: run without -short")
	}
	if reason := unavailable(); reason != "" {
		t.Skip(reason)
	}
	dir, err := os.MkdirTemp(built(t), "cluster-") //nolint:usetesting // a stopped kubelet leaves mounts in it, which end with the machine
	require.NoError(t, err)
	audit, auditArgs := auditing(t)
	control := harness.ForTest(t, harness.Options{
		Dir: dir, Scheduler: true, ControllerManager: true,
		APIServerArgs: append([]string{
			"--enable-aggregator-routing", // to the addresses of webhooks' pods, since nobody serves those of Services
			"--kubelet-preferred-address-types=InternalIP",
		}, auditArgs...),
	})
	admin, err := kubernetes.NewForConfig(control.Admin())
	require.NoError(t, err)
	c := &cluster{
		Installation: &harness.Installation{Cluster: control, Admin: admin}, kubeconfig: filepath.Join(dir, "admin.kubeconfig"), audit: audit,
	}
	require.NoError(t, harness.WriteKubeconfig(c.kubeconfig, control.Admin()))
	c.startServices(t)
	return c
}

// add adds a kubelet, which registers a Node of that name (15 characters at most). It waits until the Node is ready for pods.
func (c *cluster) add(t *testing.T, name string, args ...string) *kubelet {
	t.Helper()
	k := &kubelet{
		name: name, cluster: c, address: fmt.Sprintf("10.244.%d.1", c.kubelets),
		folder: filepath.Join(c.Cluster.Dir(), name),
		socket: "/run/machine/" + name + ".sock", // /run is the machine's own, and the path of a socket has 107 characters at most
	}
	c.kubelets++
	require.NoError(t, os.MkdirAll(k.folder, 0o700))
	t.Cleanup(func() { k.removeDisk(t) })
	k.startContainers(t)
	k.start(t, args...)
	k.waitReady(t)
	return k
}

// runs starts one of the programs of the machine, next to the control plane.
func (c *cluster) runs(t *testing.T, name string, args ...string) *harness.Process {
	t.Helper()
	process, err := c.Cluster.Go(name, filepath.Join(built(t), machineFile), args)
	require.NoError(t, err)
	return process
}

// tells runs one of the programs of the machine to its end.
func (c *cluster) tells(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(built(t), machineFile), args...).CombinedOutput() // also in cleanups
	require.NoError(t, err, "machine %s: %s", args, out)
}

// stops stops a program, which may have been stopped before.
func (c *cluster) stops(t *testing.T, name string) {
	t.Helper()
	if process := c.Cluster.Process(name); process != nil {
		require.NoError(t, process.Stop())
	}
}
