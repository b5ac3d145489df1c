package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// AttachCluster opens a cluster that was started with Detach, for its client configs and Go. Processes that Go starts are detached
// too. Stop on the result is StopDetached. RestartAPIServer is for the process that started the cluster.
func AttachCluster(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("attach cluster: %w", err)
	}
	if !recorded(dir, apiServerName) {
		return nil, fmt.Errorf("attach cluster: no %s of %s is running", apiServerName, dir)
	}
	url, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil {
		return nil, fmt.Errorf("attach cluster: %w", err)
	}
	ca, err := loadAuthority(dir)
	if err != nil {
		return nil, fmt.Errorf("attach cluster: %w", err)
	}
	return &Cluster{dir: dir, detach: true, attached: true, url: strings.TrimSpace(string(url)), ca: ca}, nil
}

// StopDetached stops the processes of a detached cluster by their ids, the last one first. Each gets SIGTERM, and SIGKILL if it has not ended after
// 90 seconds. It removes only the pid file. The error wraps os.ErrNotExist if there is no pid file. Then no cluster was left running in dir.
func StopDetached(dir string) error {
	entries, err := readPIDs(dir)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(entries) {
		err = errors.Join(err, e.stop())
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, pidsFile)); err != nil {
		return fmt.Errorf("remove pid file: %w", err)
	}
	return nil
}

// stop ends a process that is nobody's child here, if it is still the one that was recorded.
func (e entry) stop() error {
	// Get the handle before comparing the start time: from then on it can only mean the compared process.
	process, err := os.FindProcess(e.pid)
	if err != nil || !e.running() {
		return nil
	}
	defer func() { _ = process.Release() }()
	// A paused process gets SIGTERM only when it continues.
	if err := e.signal(process, syscall.SIGTERM, resumeSignal); err != nil || e.gone(stopGrace) {
		return err
	}
	if err := e.signal(process, syscall.SIGKILL); err != nil || e.gone(stopGrace) {
		return err
	}
	return fmt.Errorf("stop %s: pid %d is still there after SIGKILL", e.name, e.pid)
}

func (e entry) signal(process *os.Process, signals ...os.Signal) error {
	for _, s := range signals {
		if err := process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("send %s to %s (pid %d): %w", s, e.name, e.pid, err)
		}
	}
	return nil
}

func (e entry) gone(timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if !e.running() {
			return true
		}
	}
	return false
}
