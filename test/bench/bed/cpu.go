package bed

import (
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// CPU returns the CPU time that CREATEs have taken so far. It is the time of the API server, of etcd, of the reference webhooks and of the newest webhook.
// Unlike the time that a CREATE takes, it hardly depends on other load on the machine.
func (b *Bed) CPU() time.Duration {
	processes := b.ControlPlane()
	if b.reference != nil {
		processes = append(processes, b.reference.process)
	}
	if b.webhook != nil {
		processes = append(processes, b.webhook.Process)
	}
	return b.CPUOf(processes...)
}

// ControlPlaneCPU returns the CPU time that the API server and etcd have taken so far.
func (b *Bed) ControlPlaneCPU() time.Duration { return b.CPUOf(b.ControlPlane()...) }

// APIServerCPU returns the CPU time that the API server has taken so far.
func (b *Bed) APIServerCPU() time.Duration { return b.CPUOf(b.cluster.Process("kube-apiserver")) }

// CPUOf returns the CPU time that processes have taken so far.
func (r *Run) CPUOf(processes ...*harness.Process) (total time.Duration) {
	for _, process := range processes {
		total += r.Usage(process.Pid()).CPU
	}
	return total
}

// Usage returns what a process uses of the machine.
func (r *Run) Usage(pid int) measure.Usage {
	usage, err := measure.UsageOf(pid)
	require.NoError(r, err)
	return usage
}
