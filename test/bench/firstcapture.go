package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// bareLoop writes the records of Nodes that are not there, which capture is compared with.
func (b *bench) bareLoop(ctx context.Context, names []string) cell {
	bare := timed(b.ControlPlaneCPU, func() measure.Load { return b.AddRecords(ctx, names) })
	b.done("records written in a bare loop", bare.Load)
	return bare
}

// firstCaptures measures the two in turn, for the speed of the CPUs may change from one minute to the next.
func (b *bench) firstCaptures(ctx context.Context) {
	nodes := b.population(ctx)
	for range b.rounds {
		bare := b.bareLoop(ctx, nodes)
		b.DeleteRecords(ctx, nodes)
		b.firstCapture(ctx, bare)
		b.DeleteRecords(ctx, nodes)
	}
}

// firstCapture starts capture where no record is there and every Node wants one, and compares it with the bare loop.
func (b *bench) firstCapture(ctx context.Context, bare cell) {
	b.phase("first capture of %d Nodes", b.nodes)
	used := b.CountRecords(ctx) // ConfigMaps that are none
	began := time.Now()
	capture := b.StartCapture(ctx, "")
	starting := time.Since(began)
	took, cpu := spent(func() {
		b.started("capture", fmt.Sprintf("%d Nodes, no record", b.nodes), capture)
		b.remember(capture, fmt.Sprintf("has read %d Nodes", b.nodes))
		b.Wait(ctx, patience, 100*time.Millisecond, "every Node has a record", func(ctx context.Context) (bool, error) {
			return b.CountRecords(ctx) >= used+b.nodes, nil
		})
	}, b.ControlPlaneCPU, capture.CPU)
	fromStart := capture.CPU()
	b.remember(capture, "has written every record")
	b.whole(ctx)
	title := fmt.Sprintf("First capture of %d Nodes, %d at a time", b.nodes, bed.Workers)
	table := b.table(title, "", "records", "time", "records/s", "time / bare loop", "CPU of the control plane a record", "CPU of capture a record")
	row := func(name string, count int, took time.Duration, cpu ...any) {
		rate := measure.Rate(count, took)
		table.Row(name, count, measure.Seconds(took), fmt.Sprintf("%.0f", rate), measure.Ratio(bare.Rate(), rate), cpu)
	}
	perNode := func(cpu time.Duration) string { return measure.Milliseconds(cpu / time.Duration(b.nodes)) }
	row("bare loop of CREATEs", len(bare.Times), bare.Took, measure.Milliseconds(bare.perNode()), "")
	row("capture, from ready", b.nodes, took, perNode(cpu[0]), perNode(cpu[1]))
	row("capture, from the start of its process", b.nodes, starting+took, "", perNode(fromStart))
	table.Flush()
	capture.Stop()
}

// whole checks that there is a record of every Node with every label.
func (b *bench) whole(ctx context.Context) {
	count, lacking := 0, 0
	b.EachRecord(ctx, func(record record.Record) {
		count++
		if !harness.HasAll(record.Items(), bed.Kept()) || !record.DeletedAt.IsZero() {
			lacking++
		}
	})
	require.Equal(b, b.nodes, count, "records of all Nodes")
	require.Zero(b, lacking, "records that lack something")
}
