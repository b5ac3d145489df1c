package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Options defines what StartCluster starts. The zero value is etcd and kube-apiserver in a temporary folder.
type Options struct {
	// Dir is the folder for data, certificates and logs. It is created if missing. It must be empty or have been the Dir of an earlier cluster, whose
	// remains StartCluster removes. Empty means a temporary folder, which Stop removes unless the test failed.
	Dir string
	// Scheduler adds a kube-scheduler.
	Scheduler bool
	// ControllerManager adds a kube-controller-manager with its usual controllers. StartCluster then also waits for its ServiceAccount in namespace
	// default. Without that account no Pod can be created there.
	ControllerManager bool
	// Detach lets the processes outlive this one, until StopDetached. It needs a Dir.
	Detach bool
	// APIServerArgs are added behind kube-apiserver's own arguments, "--runtime-config=..." for example.
	APIServerArgs []string
}

// binaries names the programs that the options ask for.
func (o Options) binaries() []string {
	names := []string{etcdName, apiServerName}
	if o.Scheduler {
		names = append(names, schedulerName)
	}
	if o.ControllerManager {
		names = append(names, controllerManagerName)
	}
	return names
}

// marker is the file by which StartCluster knows a Dir again as one of ours.
const marker = ".nodekeep-cluster"

// prepare makes the folder of a cluster, with nothing of an earlier one left in it.
func (o Options) prepare() (dir string, err error) {
	if o.Dir == "" {
		if o.Detach {
			return "", errors.New("prepare folder: Detach needs a Dir")
		}
		if dir, err = os.MkdirTemp("", "nodekeep-cluster-"); err != nil {
			return "", fmt.Errorf("make temporary folder: %w", err)
		}
	} else if dir, err = claim(o.Dir); err != nil {
		return "", err
	}
	for _, sub := range []string{logsDir, certsDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return "", fmt.Errorf("make folder: %w", err)
		}
	}
	return dir, nil
}

// claim takes a named folder for a new cluster. It removes only what a cluster leaves, and only from a folder that
// carries the marker: Dir could be anything.
func claim(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	content, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("read folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); len(content) > 0 && err != nil {
		return "", fmt.Errorf("claim folder %s: it is neither empty nor that of an earlier cluster", dir)
	}
	entries, err := readPIDs(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if e.running() {
			return "", fmt.Errorf("claim folder %s: its cluster is running (%s has pid %d)", dir, e.name, e.pid)
		}
	}
	for _, old := range []string{dataDir, logsDir, certsDir, flexDir, urlFile, pidsFile} {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return "", fmt.Errorf("remove remains of the last cluster: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, marker), nil, 0o600); err != nil {
		return "", fmt.Errorf("write marker: %w", err)
	}
	return dir, nil
}
