package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupFolder is where a machine has its cgroups.
const cgroupFolder = "/sys/fs/cgroup"

// cgroupPrefix begins the name of a machine's cgroup.
const cgroupPrefix = "nodekeep-machine-"

// cgroup is that of a machine: every process of it is in this cgroup or below. It is one of version 2, without controllers, below the cgroup of the
// process that makes it.
type cgroup struct {
	computer *os.File // the computer's cgroups, which are mounted nowhere
	path     string
}

func newCgroup() (*cgroup, error) {
	cgroups, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open cgroups of version 2: %w", err)
	}
	defer unix.Close(cgroups)
	if err := unix.FsconfigCreate(cgroups); err != nil {
		return nil, fmt.Errorf("open cgroups of version 2: %w", err)
	}
	mounted, err := unix.Fsmount(cgroups, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open cgroups of version 2: %w", err)
	}
	c := &cgroup{computer: os.NewFile(uintptr(mounted), "cgroup2")}
	current, err := currentCgroup()
	if err != nil {
		return nil, errors.Join(err, c.computer.Close())
	}
	parent := filepath.Join(fmt.Sprintf("/proc/self/fd/%d", mounted), current)
	old, err := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	if err != nil {
		return nil, errors.Join(err, c.computer.Close())
	}
	for _, path := range old {
		_ = removeCgroup(path) // of a machine that was killed; those of others have processes and stay
	}
	if c.path, err = os.MkdirTemp(parent, cgroupPrefix); err != nil {
		return nil, errors.Join(fmt.Errorf("make cgroup of machine: %w", err), c.computer.Close())
	}
	return c, nil
}

// currentCgroup returns the path of this process's cgroup of version 2.
func currentCgroup() (string, error) {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if path, found := strings.CutPrefix(line, "0::"); found {
			return strings.TrimSpace(path), nil
		}
	}
	return "", errors.New("this process is in no cgroup of version 2")
}

// remove removes the cgroup when its processes have ended.
func (c *cgroup) remove() error {
	return errors.Join(removeCgroup(c.path), c.computer.Close())
}

// removeCgroup removes a cgroup and all below it.
func removeCgroup(path string) error {
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, removeCgroup(filepath.Join(path, entry.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Rmdir(path); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", path, err)
	}
	return nil
}

// isolateCgroups makes the cgroup of this thread the root of those that it sees, and of those that are mounted.
func isolateCgroups() error {
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("isolate cgroups: %w", err)
	}
	if err := unix.Mount("none", cgroupFolder, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount cgroups: %w", err)
	}
	return nil
}

// enterCgroup makes a cgroup, unless it is there, and moves this process to it.
func enterCgroup(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("enter cgroup: %w", err)
	}
	return nil
}
