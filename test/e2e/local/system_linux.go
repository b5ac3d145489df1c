package local

import (
	"os"
	"regexp"
	"strconv"
	"syscall"
)

// dieWithParent asks the kernel to kill a child when its parent dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// mayIsolate reports whether this process has the rights that a machine of its own takes. Root in a container often has not.
func mayIsolate() bool {
	const sysAdmin = 21 // capabilities(7)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || os.Geteuid() != 0 {
		return false
	}
	effective := regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`).FindSubmatch(status)
	if effective == nil {
		return false
	}
	set, err := strconv.ParseUint(string(effective[1]), 16, 64)
	return err == nil && set&(1<<sysAdmin) != 0
}
