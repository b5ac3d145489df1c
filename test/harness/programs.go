package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Go starts a program next to the control plane. Stop ends it before the API server. Its output goes to the file LogPath(name); env is added to the
// environment of this process. The name has no spaces, and no other running process of the cluster has it. The name of an ended process may be used
// again.
func (c *Cluster) Go(name, path string, args []string, env ...string) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("start %s: the cluster is stopped", name)
	}
	i := slices.IndexFunc(c.processes, func(p *Process) bool { return p.Name() == name })
	if i >= 0 && c.processes[i].running() || c.attached && recorded(c.dir, name) {
		return nil, fmt.Errorf("start %s: a process of that name is running", name)
	}
	p, err := StartProcess(Command{Name: name, Path: path, Args: args, Env: env, Log: c.LogPath(name), Detach: c.detach})
	if err != nil {
		return nil, err
	}
	if i >= 0 {
		c.processes[i] = p // keeps its place in the order of stopping
	} else {
		c.processes = append(c.processes, p)
	}
	if c.detach {
		if err := recordPID(c.dir, p); err != nil {
			return nil, errors.Join(err, p.Kill())
		}
	}
	return p, nil
}

// Process returns the process of that name which this Cluster started, "kube-apiserver" or one of Go's, or nil. A test can
// pause, kill or watch it.
func (c *Cluster) Process(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// RestartAPIServer stops the API server if it runs, and starts it again on the same port and data. It returns when the API server is ready. Clients
// see refused connections in between.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	old := c.Process(apiServerName)
	if old == nil {
		return errors.New("restart API server: it was not started by this process")
	}
	if err := old.Stop(); err != nil {
		return fmt.Errorf("restart API server: %w", err)
	}
	p, err := c.Go(apiServerName, old.command.Path, old.command.Args, old.command.Env...)
	if err != nil {
		return fmt.Errorf("restart API server: %w", err)
	}
	if err := c.awaitAPIServer(ctx, p); err != nil {
		return fmt.Errorf("restart API server: %w", err)
	}
	return nil
}

// goWithKubeconfig starts a component that is a client of the API server. Its user name is the one that RBAC knows.
func (c *Cluster) goWithKubeconfig(name string, args func(dir, kubeconfig string) []string) error {
	kubeconfig := filepath.Join(c.dir, certsDir, name+".kubeconfig")
	if err := WriteKubeconfig(kubeconfig, c.clientConfig("system:"+name)); err != nil {
		return err
	}
	_, err := c.Go(name, Binary(name), args(c.dir, kubeconfig))
	return err
}
