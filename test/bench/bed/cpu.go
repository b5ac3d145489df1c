package bed

import (
	"time"

	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// CPU is the CPU time that CREATEs have taken so far. It is the time of the API server, of etcd, of the reference webhooks and of the newest webhook.
// Unlike the time that a CREATE takes, it hardly depends on other load on the machine.
func (b *Bed) CPU() (total time.Duration, err error) {
	processes := b.ControlPlane()
	if b.reference != nil {
		processes = append(processes, b.reference.process)
	}
	if b.webhook != nil {
		processes = append(processes, b.webhook.Process)
	}
	return cpuOf(processes)
}

// ControlPlaneCPU is the CPU time that the API server and etcd have taken so far.
func (b *Bed) ControlPlaneCPU() (time.Duration, error) { return cpuOf(b.ControlPlane()) }

func cpuOf(processes []*harness.Process) (total time.Duration, err error) {
	for _, process := range processes {
		usage, err := measure.UsageOf(process.Pid())
		if err != nil {
			return 0, err
		}
		total += usage.CPU
	}
	return total, nil
}
