package local

import (
	"os"
	"syscall"

	"github.com/prometheus/procfs"
)

// dieWithParent asks the kernel to kill a child when its parent dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// mayIsolate reports whether this process has the rights that a machine of its own takes. Root in a container often has not.
func mayIsolate() bool {
	const sysAdmin = 21 // capabilities(7)
	self, err := procfs.Self()
	if err != nil {
		return false
	}
	status, err := self.NewStatus()
	return err == nil && os.Geteuid() == 0 && status.CapEff&(1<<sysAdmin) != 0
}

// unmount takes a file system and all that is mounted in it away.
func unmount(path string) error { return syscall.Unmount(path, syscall.MNT_DETACH) }
