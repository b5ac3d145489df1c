package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Cluster is a running control plane. Its methods may be called from several goroutines.
type Cluster struct {
	dir      string
	url      string
	ca       *Authority
	detach   bool
	attached bool
	// temporary folders go with the cluster, unless a caller wants to look into them.
	temporary bool

	etcdURL string // empty where another process started it

	mu        sync.Mutex
	processes []*Process // in order of start
	stopped   bool
}

// StartCluster starts a control plane and returns when it is ready: the API server reports it, and namespace default exists. The context bounds the
// start only; the cluster runs until Stop. If the start fails, nothing is left running. The error then names the folder with the logs, unless the
// context was cancelled.
func StartCluster(ctx context.Context, options Options) (*Cluster, error) {
	if err := checkBinaries(options.binaries()); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c, err := startOnFreePorts(ctx, options)
	if errors.Is(err, errPortTaken) {
		// Another program took the port between our look and the listen of the program.
		c, err = startOnFreePorts(ctx, options)
	}
	return c, err
}

func startOnFreePorts(ctx context.Context, options Options) (*Cluster, error) {
	p, err := freePorts()
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return start(ctx, options, p)
}

func start(ctx context.Context, options Options, p ports) (*Cluster, error) {
	dir, err := options.prepare()
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{dir: dir, url: p.apiServerURL(), etcdURL: p.etcdURL(), detach: options.Detach, temporary: options.Dir == ""}
	if err := c.launch(ctx, options, p); err != nil {
		if !errors.Is(err, errPortTaken) && !errors.Is(ctx.Err(), context.Canceled) {
			c.keepDir()
			err = fmt.Errorf("%w\nlogs are in %s", err, filepath.Join(dir, logsDir))
		}
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	return c, nil
}

// launch starts the programs one after another, each when those it needs are ready.
func (c *Cluster) launch(ctx context.Context, options Options, p ports) (err error) {
	if c.ca, err = NewAuthority(); err != nil {
		return err
	}
	if err := c.ca.writeCerts(c.dir); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(c.dir, urlFile), []byte(c.url+"\n")); err != nil {
		return err
	}
	etcd, err := c.Go(etcdName, Binary(etcdName), etcdArgs(c.dir, p), lessGC()...)
	if err != nil {
		return err
	}
	if err := await(ctx, etcd, answers(p.etcdURL()+"/health")); err != nil {
		return err
	}
	apiServer, err := c.Go(apiServerName, Binary(apiServerName), append(apiServerArgs(c.dir, p), options.APIServerArgs...), lessGC()...)
	if err != nil {
		return err
	}
	if err := c.awaitAPIServer(ctx, apiServer); err != nil {
		return err
	}
	if options.Scheduler {
		if err := c.goWithKubeconfig(schedulerName, schedulerArgs); err != nil {
			return err
		}
	}
	if options.ControllerManager {
		if err := c.goWithKubeconfig(controllerManagerName, controllerManagerArgs); err != nil {
			return err
		}
		return c.awaitControllerManager(ctx)
	}
	return nil
}

// Stop stops all processes, the last one first, and removes a temporary folder. Each process gets SIGTERM, and SIGKILL if it has not ended after 90
// seconds. The error names the processes that had to be killed, whose logs stay. No process is left in any case. A second Stop does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	if c.attached {
		return StopDetached(c.dir)
	}
	var err error
	for _, p := range slices.Backward(c.processes) {
		err = errors.Join(err, p.Stop())
	}
	if c.detach {
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, pidsFile)))
	}
	if err != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, filepath.Join(c.dir, logsDir))
	}
	if c.temporary {
		return os.RemoveAll(c.dir)
	}
	return nil
}

// keepDir makes Stop leave a temporary folder where it is.
func (c *Cluster) keepDir() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.temporary = false
}

// Dir returns the folder with the cluster's data, certificates and logs.
func (c *Cluster) Dir() string { return c.dir }

// LogPath returns the log file of the process of that name.
func (c *Cluster) LogPath(name string) string {
	return filepath.Join(c.dir, logsDir, name+".log")
}

// URL returns the address of the API server, https on loopback.
func (c *Cluster) URL() string { return c.url }
