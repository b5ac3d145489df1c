//go:build unix && !linux

package harness

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)

// attributes takes a child out of the parent's process group or session. Nothing here ties it to the parent's life: a
// killed owner leaves its children behind.
func attributes(detach bool) *syscall.SysProcAttr {
	if detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// startTime distinguishes one process from a later one with the same id.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("read process %d: %w", pid, err)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 || strings.HasPrefix(fields[0], "Z") {
		return "", fmt.Errorf("read process %d: it has ended", pid)
	}
	return strings.Join(fields[1:], "_"), nil
}
