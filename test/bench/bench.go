package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// bench is one run.
type bench struct {
	*bed.Bed
	settings

	out    io.Writer // tables; what is going on goes to stderr
	began  time.Time
	memory []memoryRow
	starts []startRow
}

func newBench(ctx context.Context, s settings, out io.Writer) (*bench, error) {
	b := &bench{settings: s, out: out, began: time.Now()}
	if len(s.builds) == 0 { // builds have control planes of their own
		b.phase("start the control plane")
		var err error
		if b.Bed, err = bed.New(ctx); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(out, "bench %s\n%s\n", strings.Join(os.Args[1:], " "), machine())
	return b, nil
}

// Close stops the control plane.
func (b *bench) Close() error {
	if b.Bed == nil {
		return nil
	}
	return b.Bed.Close()
}

// phase reports what comes next.
func (b *bench) phase(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// done reports how a load went.
func (b *bench) done(what string, load measure.Load) {
	b.phase("%d %s in %s, %.0f a second", len(load.Times), what, measure.Seconds(load.Took), load.Rate())
}

// controlPlane reports how much memory the control plane has come to.
func (b *bench) controlPlane() {
	for _, process := range b.ControlPlane() {
		if usage, err := measure.UsageOf(process.Pid()); err == nil {
			b.phase("%s has %s, at most %s", process.Name(), measure.Mebibytes(usage.Resident), measure.Mebibytes(usage.Peak))
		}
	}
}

// machine describes the machine of the measurement.
func machine() string {
	const perKiB = 1 << 20
	var total, free int64
	memory, _ := os.ReadFile("/proc/meminfo")
	for line := range bytes.Lines(memory) {
		_, _ = fmt.Sscanf(string(line), "MemTotal: %d kB", &total)
		_, _ = fmt.Sscanf(string(line), "MemAvailable: %d kB", &free)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	lastMinute, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%d CPUs, %d GiB memory, %d GiB of it available, load average %s; %s %s/%s; %s",
		runtime.NumCPU(), (total+perKiB/2)/perKiB, free/perKiB, lastMinute,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().UTC().Format("2006-01-02 15:04 UTC"))
}
