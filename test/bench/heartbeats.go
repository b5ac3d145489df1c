package main

import (
	"context"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// reportEvery is how often a kubelet reports a status that has not changed, by default (nodeStatusReportFrequency).
const reportEvery = 5 * time.Minute

// heartbeats has kubelets report their status, and compares what that costs capture with a time in which nothing happens.
// Not one record may be written.
func (b *bench) heartbeats(ctx context.Context, pair both, nodes []string) error {
	if err := b.settled(ctx, pair.capture); err != nil {
		return err
	}
	rate := max(1, int(float64(b.kubelets)/reportEvery.Seconds()))
	count := rate * int(b.period/time.Second)
	table := measure.NewTable(b.out, fmt.Sprintf("Heartbeats of %d kubelets, one each %s: %d a second for %s", b.kubelets, reportEvery, rate, b.period),
		"", "status updates", "records written", "CPU of capture", "of one CPU")
	before, err := b.RecordVersions(ctx)
	if err != nil {
		return err
	}
	row := func(what string, updates int, do func() error) error {
		start, err := pair.capture.Usage()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := do(); err != nil {
			return err
		}
		took := time.Since(began)
		end, err := pair.capture.Usage()
		if err != nil {
			return err
		}
		written, err := b.written(ctx, before)
		if err != nil {
			return err
		}
		cpu := end.CPU - start.CPU
		table.Row(what, updates, written, measure.Milliseconds(cpu), fmt.Sprintf("%.1f %%", 100*cpu.Seconds()/took.Seconds()))
		if written > 0 {
			return fmt.Errorf("%s: %d records were written, and none should have been", what, written)
		}
		return nil
	}
	b.phase("nothing for %s", b.period)
	if err := row("nothing happens", 0, func() error { return sleep(ctx, b.period) }); err != nil {
		return err
	}
	b.phase("heartbeats for %s", b.period)
	err = row("heartbeats", count, func() error {
		_, err := b.pace(ctx, count, rate, func(ctx context.Context, number int) error {
			return b.Heartbeat(ctx, nodes[number%min(len(nodes), b.kubelets)])
		})
		return err
	})
	table.Flush()
	return err
}

// written counts the records that changed since; it leaves capture the time to do so.
func (b *bench) written(ctx context.Context, before bed.Versions) (int, error) {
	if err := sleep(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	after, err := b.RecordVersions(ctx)
	if err != nil {
		return 0, err
	}
	return after.Changed(before), nil
}
