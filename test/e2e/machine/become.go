package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// reportFile is the open file on which a container's first process reports why it cannot become the program. It closes by itself when it
// does.
const reportFile = 3

// become turns this process into the program of a container. The process is alone in new namespaces for mounts and process ids.
func become(args []string) error {
	runtime.LockOSThread()
	unix.CloseOnExec(reportFile)
	err := becomeProgram(args[0])
	_, _ = os.NewFile(reportFile, "report").WriteString(err.Error())
	return err
}

// becomeProgram returns only when it fails.
func becomeProgram(specFile string) error {
	var s spec
	if err := readJSON(specFile, &s); err != nil {
		return err
	}
	root, err := s.mountRoot()
	if err != nil {
		return err
	}
	if err := s.mountAll(root); err != nil {
		return err
	}
	if err := s.enter(root); err != nil {
		return err
	}
	program, err := s.program()
	if err != nil {
		return err
	}
	if err := s.dropRights(); err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", program, unix.Exec(program, s.Args, s.Env))
}

// mountRoot lays an empty, writable layer over the image, for mount points and what the program may write.
func (s *spec) mountRoot() (string, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", s.Dir, "tmpfs", 0, "mode=755"); err != nil {
		return "", fmt.Errorf("mount layer: %w", err)
	}
	upper, work, root := filepath.Join(s.Dir, "upper"), filepath.Join(s.Dir, "work"), filepath.Join(s.Dir, "root")
	for _, dir := range []string{upper, work, root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("make layer: %w", err)
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir="+s.Lower+",upperdir="+upper+",workdir="+work); err != nil {
		return "", fmt.Errorf("mount root: %w", err)
	}
	return root, nil
}

// mountAll mounts what every container has, and what the kubelet asks for.
func (s *spec) mountAll(root string) error {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		kind, at, options string
		flags             uintptr
	}{
		{"proc", "/proc", "", quiet},
		{"sysfs", "/sys", "", quiet | unix.MS_RDONLY},
		{"tmpfs", "/dev", "mode=755,size=64k", unix.MS_NOSUID},
		{"tmpfs", "/dev/shm", "mode=1777,size=64m", quiet},
		{"mqueue", "/dev/mqueue", "", quiet},
	} {
		at, err := securejoin.SecureJoin(root, m.at)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			return fmt.Errorf("make mount point %s: %w", m.at, err)
		}
		if err := unix.Mount(m.kind, at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		if err := (mount{From: device, At: device}).in(root); err != nil {
			return err
		}
	}
	for _, m := range s.Mounts {
		if err := m.in(root); err != nil {
			return err
		}
	}
	return nil
}

// in shows a file or folder of the machine in the container. Links in the image cannot lead it out of the image.
func (m mount) in(root string) error {
	at, err := securejoin.SecureJoin(root, m.At)
	if err != nil {
		return err
	}
	info, err := os.Stat(m.From)
	if err != nil {
		return fmt.Errorf("mount at %s: %w", m.At, err)
	}
	if info.IsDir() {
		err = os.MkdirAll(at, 0o755)
	} else {
		err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), touch(at))
	}
	if err != nil {
		return fmt.Errorf("make mount point %s: %w", m.At, err)
	}
	if err := bind(m.From, at); err != nil || !m.ReadOnly {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make %s read-only: %w", m.At, err)
	}
	return nil
}

func touch(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// enter makes the container's root the root of this process, and hides the machine's.
func (s *spec) enter(root string) error {
	if err := errors.Join(os.Chdir(root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), os.Chdir("/")); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	for _, path := range s.ReadOnlyPaths {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := errors.Join(bind(path, path), readOnly(path)); err != nil {
			return err
		}
	}
	for _, path := range s.MaskedPaths {
		if err := mask(path); err != nil {
			return fmt.Errorf("mask %s: %w", path, err)
		}
	}
	if s.ReadOnlyRoot {
		// The root alone: what is mounted in it says for itself whether it may be written.
		if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make root read-only: %w", err)
		}
	}
	if err := os.Chdir(s.Cwd); err != nil {
		return fmt.Errorf("enter working directory: %w", err)
	}
	return nil
}

func mask(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // nothing there to hide
	}
	if info.IsDir() {
		return unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY, "")
	}
	return bind("/dev/null", path)
}

// program returns the path of what is to be run, which is looked for where the container's PATH says.
func (s *spec) program() (string, error) {
	for _, e := range s.Env {
		if path, found := strings.CutPrefix(e, "PATH="); found {
			if err := os.Setenv("PATH", path); err != nil {
				return "", err
			}
		}
	}
	program, err := exec.LookPath(s.Args[0])
	if err != nil {
		return "", fmt.Errorf("find program: %w", err)
	}
	return program, nil
}

// dropRights gives up everything that the pod does not grant. Nothing that needs rights may come after it.
func (s *spec) dropRights() error {
	set, err := capability.NewPid2(0)
	if err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	keep, err := s.known()
	if err != nil {
		return err
	}
	// The bounding set goes while there is the right to change it.
	set.Clear(capability.BOUNDS)
	set.Set(capability.BOUNDS, keep...)
	if err := set.Apply(capability.BOUNDS); err != nil {
		return fmt.Errorf("drop bounding capabilities: %w", err)
	}
	if err := errors.Join(syscall.Setgroups(s.Groups), syscall.Setresgid(s.GID, s.GID, s.GID), syscall.Setresuid(s.UID, s.UID, s.UID)); err != nil {
		return fmt.Errorf("become user %d, group %d: %w", s.UID, s.GID, err)
	}
	if s.UID == 0 { // of anybody else the kernel has taken them
		set.Clear(capability.CAPS | capability.AMBS)
		set.Set(capability.EFFECTIVE|capability.PERMITTED, keep...)
		if err := set.Apply(capability.CAPS | capability.AMBS); err != nil {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	if s.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("give up new privileges: %w", err)
		}
	}
	return nil
}

func (s *spec) known() ([]capability.Cap, error) {
	if slices.Contains(s.Capabilities, "ALL") {
		return capability.ListSupported()
	}
	var keep []capability.Cap
	for _, name := range s.Capabilities {
		i := slices.IndexFunc(capability.ListKnown(), func(c capability.Cap) bool { return strings.EqualFold(c.String(), strings.TrimPrefix(name, "CAP_")) })
		if i < 0 {
			return nil, fmt.Errorf("capability %s: there is no such one", name)
		}
		keep = append(keep, capability.ListKnown()[i])
	}
	return keep, nil
}
