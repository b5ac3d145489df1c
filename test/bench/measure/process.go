package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which /proc counts CPU time. For programs on Linux it is 1/100 s, whatever the kernel's own clock.
const tick = 10 * time.Millisecond

// Usage is what a process uses of the machine, as the kernel says.
type Usage struct {
	Resident int64         // VmRSS, bytes
	Peak     int64         // VmHWM, bytes: the most that was resident since the start or since ForgetPeak
	CPU      time.Duration // user and system, since the start, in steps of 10 ms
}

// UsageOf reads /proc of a process.
func UsageOf(pid int) (Usage, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	return usage(status, stat)
}

func usage(status, stat []byte) (u Usage, err error) {
	if u.Resident, err = kibibytes(status, "VmRSS:"); err != nil {
		return Usage{}, err
	}
	if u.Peak, err = kibibytes(status, "VmHWM:"); err != nil {
		return Usage{}, err
	}
	// Fields are counted from the last ")", because the program's name may hold anything: utime and stime of proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return Usage{}, fmt.Errorf("read CPU time: %d fields", len(fields))
	}
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("read CPU time: %w", err)
		}
		u.CPU += time.Duration(ticks) * tick
	}
	return u, nil
}

func kibibytes(status []byte, key string) (int64, error) {
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, key); found {
			count, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s %w", key, err)
			}
			return count << 10, nil
		}
	}
	return 0, fmt.Errorf("read %s not in the status of the process", key)
}

// ForgetPeak makes Usage.Peak start anew from what is resident now.
func ForgetPeak(pid int) error {
	const peakOnly = "5" // clear_refs of proc_pid_clear_refs(5)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peakOnly), 0); err != nil {
		return fmt.Errorf("forget memory peak of process %d: %w", pid, err)
	}
	return nil
}
