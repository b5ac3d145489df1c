package measure

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process uses of the machine, as the kernel says.
type Usage struct {
	Resident int64         // VmRSS, bytes
	Peak     int64         // VmHWM, bytes: the most that was resident since the start or since ForgetPeak
	CPU      time.Duration // user and system, since the start, in steps of 10 ms
}

// UsageOf reads /proc of a process.
func UsageOf(pid int) (Usage, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("find process %d: %w", pid, err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return Usage{}, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	stat, err := process.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	return Usage{Resident: int64(status.VmRSS), Peak: int64(status.VmHWM), CPU: time.Duration(stat.CPUTime() * float64(time.Second))}, nil
}

// ForgetPeak makes Usage.Peak start anew from what is resident now.
func ForgetPeak(pid int) error {
	const peakOnly = "5" // clear_refs of proc_pid_clear_refs(5)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peakOnly), 0); err != nil {
		return fmt.Errorf("forget memory peak of process %d: %w", pid, err)
	}
	return nil
}
