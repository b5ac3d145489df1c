package main

import (
	"os"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// taken is the CPU time that the processes have taken so far.
type taken struct {
	controlPlane, capture time.Duration
	clients               time.Duration // of this program
}

// taken asks; capture may be nil.
func (b *bench) taken(capture *bed.Program) (t taken, err error) {
	if t.controlPlane, err = b.ControlPlaneCPU(); err != nil {
		return t, err
	}
	own, err := measure.UsageOf(os.Getpid())
	if err != nil {
		return t, err
	}
	t.clients = own.CPU
	if capture == nil {
		return t, nil
	}
	usage, err := capture.Usage()
	t.capture = usage.CPU
	return t, err
}

func (t taken) since(before taken) taken {
	return taken{controlPlane: t.controlPlane - before.controlPlane, capture: t.capture - before.capture, clients: t.clients - before.clients}
}
