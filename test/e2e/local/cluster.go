package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

// Image is the nodekeep image, as pods name it. It cannot be pulled from anywhere.
const Image = "nodekeep:test"

// Cluster is a control plane and the kubelets that were added to it.
type Cluster struct {
	// Control is the control plane. Kubelets and runtimes run next to it, so its logs are theirs too.
	Control *harness.Cluster
	// Admin is a client that may do anything.
	Admin *kubernetes.Clientset
	// Kubeconfig is the path of a kubeconfig for an admin.
	Kubeconfig string

	services *services
	kubelets int
}

// Start starts a control plane without kubelets; the API server gets further arguments. Only a process that RunTests has started on a machine of its
// own may call it. There may be one Cluster at a time.
func Start(ctx context.Context, apiServerArgs ...string) (*Cluster, error) {
	built, err := isolated()
	if err != nil {
		return nil, err
	}
	// A folder that is never used again: a stopped kubelet leaves mounts in it, which end with the machine.
	dir, err := os.MkdirTemp(built, "cluster-")
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	control, err := harness.StartCluster(ctx, harness.Options{
		Dir: dir, Scheduler: true, ControllerManager: true,
		APIServerArgs: append([]string{
			"--enable-aggregator-routing", // to the addresses of webhooks' pods, since nobody serves those of Services
			"--kubelet-preferred-address-types=InternalIP",
		}, apiServerArgs...),
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Control: control, Kubeconfig: filepath.Join(dir, "admin.kubeconfig")}
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) connect(ctx context.Context) (err error) {
	if err := harness.WriteKubeconfig(c.Kubeconfig, c.Control.Admin()); err != nil {
		return err
	}
	if c.Admin, err = kubernetes.NewForConfig(c.Control.Admin()); err != nil {
		return fmt.Errorf("make admin client: %w", err)
	}
	c.services, err = startServices(ctx, c.Admin, c.Control.URL())
	return err
}

// Add adds a kubelet, which registers a Node of that name (15 characters at most). It waits until the Node is ready for pods.
func (c *Cluster) Add(ctx context.Context, name string, args ...string) (*Kubelet, error) {
	k := &Kubelet{
		Name: name, cluster: c, address: fmt.Sprintf("10.244.%d.1", c.kubelets),
		folder: filepath.Join(c.Control.Dir(), name),
		socket: "/run/machine/" + name + ".sock", // /run is the machine's own, and the path of a socket has 107 characters at most
	}
	if err := os.MkdirAll(k.folder, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of kubelet: %w", err)
	}
	if err := k.StartContainers(ctx); err != nil {
		return nil, err
	}
	c.kubelets++
	if err := k.Start(args...); err != nil {
		return nil, err
	}
	return k, k.WaitReady(ctx)
}

// Stop stops everything, containers included.
func (c *Cluster) Stop() error {
	var err error
	if c.services != nil {
		err = c.services.close()
	}
	if stopErr := c.Control.Stop(); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stop cluster: %w", stopErr))
	}
	return err
}
