package main

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// remember notes what a process has come to and starts its peak anew.
func (b *bench) remember(p *bed.Program, moment string) {
	usage := p.Usage()
	b.memory.Row(p.Name(), moment, measure.Mebibytes(usage.Resident), measure.Mebibytes(usage.Peak))
	b.phase("%s, %s: %s resident, at most %s", p.Name(), moment, measure.Mebibytes(usage.Resident), measure.Mebibytes(usage.Peak))
	require.NoError(b, measure.ForgetPeak(p.Pid()))
}

// rest leaves a process idle for half a minute, or for a shorter period. Then it notes the memory of the process.
func (b *bench) rest(ctx context.Context, p *bed.Program, moment string) {
	b.sleep(ctx, min(30*time.Second, b.period))
	b.remember(p, moment)
}

func (b *bench) sleep(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
		require.NoError(b, context.Cause(ctx))
	case <-time.After(long):
	}
}

// started notes how long a process took to be ready.
func (b *bench) started(process, args string, p *bed.Program) {
	b.starts.Row(process, args, measure.Milliseconds(p.Ready))
	b.phase("%s ready after %s with %s", p.Name(), measure.Milliseconds(p.Ready), args)
}
