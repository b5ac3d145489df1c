package harness

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)

// attributes ties a child to its parent's life, or takes it out of the parent's session. Pdeathsig is SIGKILL: with
// nobody left to follow up, a child that takes its time on SIGTERM would stay.
func attributes(detach bool) *syscall.SysProcAttr {
	if detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startTime distinguishes one process from a later one with the same id. It is the boot, and the clock ticks from there to the start. A zombie has
// ended, and its parent may never wait for it, so it counts as ended.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("read process %d: %w", pid, err)
	}
	// The second field is the program's name in parentheses and may contain anything. Later fields are counted from the last ")".
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, start = 0, 19 // fields 3 and 22 of proc_pid_stat(5)
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return "", fmt.Errorf("read process %d: it has ended", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[start], nil
}
