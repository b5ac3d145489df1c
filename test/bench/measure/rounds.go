package measure

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// Variant is one of several things that are compared.
type Variant struct {
	Name string // without spaces
	Run  func()
}

// InTurn compares variants with the first of them. It runs b.N rounds of so many calls of each variant, and each round begins with another variant.
// It counts CPU time of the process, the garbage collector's included. So other programs on the machine count little.
//
// For each variant it reports the least CPU time of a call in a round (µs). It also reports the ratio of this time to the first variant's, the median
// of the rounds' ratios, and allocations.
func InTurn(b *testing.B, calls int, variants ...Variant) {
	b.Helper()
	times, ratios := make([]Times, len(variants)), make([][]float64, len(variants))
	for round := 0; b.Loop(); round++ {
		for i := range variants {
			pos := (round + i) % len(variants)
			start := cpuTime(b)
			for range calls {
				variants[pos].Run()
			}
			times[pos] = append(times[pos], cpuTime(b)-start)
		}
		for i := range variants {
			ratios[i] = append(ratios[i], float64(times[i][round])/float64(times[0][round]))
		}
	}
	first := times[0].Quantile(0)
	for i, variant := range variants {
		minimum := times[i].Quantile(0)
		b.ReportMetric(float64(minimum)/float64(time.Microsecond)/float64(calls), "µs-CPU/"+variant.Name)
		b.ReportMetric(testing.AllocsPerRun(calls, variant.Run), "allocs/"+variant.Name)
		if i > 0 {
			b.ReportMetric(float64(minimum)/float64(first), fmt.Sprintf("%s/%s", variant.Name, variants[0].Name))
			b.ReportMetric(Median(ratios[i]), fmt.Sprintf("median-%s/%s", variant.Name, variants[0].Name))
		}
	}
}

// cpuTime returns what this process has used so far, user and system.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
