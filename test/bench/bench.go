package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// bench is one run.
type bench struct {
	*bed.Run
	*bed.Bed // nil where builds are compared: these have control planes of their own
	settings

	began  time.Time
	memory *measure.Table
	starts *measure.Table
}

func newBench(ctx context.Context, run *bed.Run, s settings) *bench {
	b := &bench{Run: run, settings: s, began: time.Now()}
	b.memory = b.table("Memory", "process", "moment", "resident", "peak since the row before")
	b.starts = b.table("Start: from the start of the process until it is ready", "process", "there is", "time")
	if len(s.builds) == 0 {
		b.phase("start the control plane")
		b.Bed = bed.New(ctx, run, harness.Product{})
		b.Images = s.images
	}
	fmt.Printf("bench %s\n%s\n", strings.Join(os.Args[1:], " "), machine())
	return b
}

// table starts a table. What is going on meanwhile goes to stderr.
func (b *bench) table(title string, columns ...string) *measure.Table {
	return measure.NewTable(os.Stdout, title, columns...)
}

// phase reports what comes next.
func (b *bench) phase(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// done reports how a load went.
func (b *bench) done(name string, load measure.Load) {
	b.phase("%d %s in %s, %.0f a second", len(load.Times), name, measure.Seconds(load.Took), load.Rate())
}

// controlPlane reports how much memory the control plane has come to.
func (b *bench) controlPlane() {
	for _, process := range b.ControlPlane() {
		usage := b.Usage(process.Pid())
		b.phase("%s has %s, at most %s", process.Name(), measure.Mebibytes(usage.Resident), measure.Mebibytes(usage.Peak))
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
