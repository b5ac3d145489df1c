package main

import (
	"context"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// startRow is how long a process took to be ready.
type startRow struct {
	process, with string
	took          time.Duration
}

func (b *bench) started(process, with string, p *bed.Program) {
	b.starts = append(b.starts, startRow{process, with, p.Ready})
	b.phase("%s ready after %s with %s", p.Name(), measure.Milliseconds(p.Ready), with)
}

func (b *bench) printStarts() {
	table := measure.NewTable(b.out, "Start: from the start of the process until it is ready", "process", "there is", "time")
	for _, row := range b.starts {
		table.Row(row.process, row.with, measure.Milliseconds(row.took))
	}
	table.Flush()
}

// rest leaves a process idle for half a minute, or for a shorter period. Then it notes the memory of the process.
func (b *bench) rest(ctx context.Context, p *bed.Program, moment string) error {
	if err := sleep(ctx, min(30*time.Second, b.period)); err != nil {
		return err
	}
	return b.remember(p, moment)
}

func sleep(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(long):
		return nil
	}
}
