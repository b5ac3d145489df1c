package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// settings are those of the kernel that a kubelet insists on. They hold for the whole computer, so the kubelet only sees the values that it wants.
//
// Source: k8s.io/component-helpers/node/util/sysctl.
var settings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// furnish arranges the file systems of a new machine.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// What a kubelet writes outside of its folder, whatever its configuration says: sockets of device plugins, links to logs.
	for _, path := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return fmt.Errorf("mount an empty %s: %w", path, err)
		}
	}
	if err := readOnly("/sys"); err != nil {
		return err
	}
	if err := bind("/proc/sys/vm", "/proc/sys/vm"); err != nil {
		return err
	}
	if err := bind("/proc/sys/kernel", "/proc/sys/kernel"); err != nil {
		return err
	}
	for name, value := range settings {
		file := filepath.Join("/run/machine/settings", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make folder of kernel setting %s: %w", name, err)
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o444); err != nil {
			return fmt.Errorf("write kernel setting %s: %w", name, err)
		}
		if err := bind(file, filepath.Join("/proc/sys", name)); err != nil {
			return err
		}
	}
	return errors.Join(readOnly("/proc/sys/vm"), readOnly("/proc/sys/kernel"), unix.Sethostname([]byte("machine")))
}

// bind shows a file or folder at another place too.
func bind(from, stamp string) error {
	if err := unix.Mount(from, stamp, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, stamp, err)
	}
	return nil
}

// readOnly makes a mount and all mounts in it read-only.
func readOnly(path string) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}
