package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// bareLoop writes the records of Nodes that are not there, which capture is compared with.
func (b *bench) bareLoop(ctx context.Context, names []string) (bare cell, err error) {
	if bare, err = timed(b.ControlPlaneCPU, func() (measure.Load, error) { return b.AddRecords(ctx, names) }); err != nil {
		return bare, err
	}
	b.done("records written in a bare loop", bare.Load)
	return bare, nil
}

// firstCaptures measures the two in turn, for the speed of the CPUs may change from one minute to the next.
func (b *bench) firstCaptures(ctx context.Context) error {
	nodes := bed.Names("node", b.nodes)
	b.phase("make %d Nodes of 50 images", len(nodes))
	if _, err := b.AddNodes(ctx, nodes); err != nil {
		return err
	}
	for range b.rounds {
		bare, err := b.bareLoop(ctx, nodes)
		if err != nil {
			return err
		}
		if _, err := b.DeleteRecords(ctx, nodes); err != nil {
			return err
		}
		if err := b.firstCapture(ctx, bare); err != nil {
			return err
		}
		if _, err := b.DeleteRecords(ctx, nodes); err != nil {
			return err
		}
	}
	return nil
}

// firstCapture starts capture where no record is there and every Node wants one, and compares it with the bare loop.
func (b *bench) firstCapture(ctx context.Context, bare cell) error {
	b.phase("first capture of %d Nodes", b.nodes)
	others, err := b.CountRecords(ctx) // ConfigMaps that are none
	if err != nil {
		return err
	}
	began := time.Now()
	capture, err := b.StartCapture(ctx, "", "--kube-api-qps", fmt.Sprint(b.qps))
	if err != nil {
		return err
	}
	ready := time.Now()
	before, err := b.taken(capture)
	if err != nil {
		return err
	}
	b.started("capture", fmt.Sprintf("%d Nodes, no record", b.nodes), capture)
	if err := b.remember(capture, fmt.Sprintf("has read %d Nodes", b.nodes)); err != nil {
		return err
	}
	err = bed.Await(ctx, patience, 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		count, err := b.CountRecords(ctx)
		return count >= others+b.nodes, err
	})
	if err != nil {
		return fmt.Errorf("wait for first capture: %w", err)
	}
	took := time.Since(ready)
	after, err := b.taken(capture)
	if err != nil {
		return err
	}
	if err := b.remember(capture, "has written every record"); err != nil {
		return err
	}
	if err := b.whole(ctx); err != nil {
		return err
	}
	title := fmt.Sprintf("First capture of %d Nodes, %d at a time, with --kube-api-qps %g", b.nodes, bed.Workers, b.qps)
	table := measure.NewTable(b.out, title, "", "records", "time", "records/s", "time / bare loop", "CPU of the control plane a record", "CPU of capture a record")
	row := func(what string, count int, took time.Duration, cpu ...any) {
		rate := measure.Rate(count, took)
		table.Row(append([]any{what, count, measure.Seconds(took), fmt.Sprintf("%.0f", rate), measure.Ratio(bare.Rate(), rate)}, cpu...)...)
	}
	each := func(cpu time.Duration) string { return measure.Milliseconds(cpu / time.Duration(b.nodes)) }
	row("bare loop of CREATEs", len(bare.Times), bare.Took, measure.Milliseconds(bare.each()), "")
	row("capture, from ready", b.nodes, took, each(after.controlPlane-before.controlPlane), each(after.capture-before.capture))
	row("capture, from the start of its process", b.nodes, ready.Sub(began)+took, "", each(after.capture))
	table.Flush()
	return capture.Stop()
}

// whole checks that there is a record of every Node with every label.
func (b *bench) whole(ctx context.Context) error {
	count, lacking := 0, 0
	err := b.EachRecord(ctx, func(record record.Record) {
		count++
		if !holds(record, bed.Kept()) || !record.DeletedAt.IsZero() {
			lacking++
		}
	})
	if err == nil && (count != b.nodes || lacking > 0) {
		err = errors.New("capture has not remembered every Node")
	}
	if err != nil {
		return fmt.Errorf("check %d records, of which %d lack something: %w", count, lacking, err)
	}
	return nil
}

func holds(record record.Record, want map[string]string) bool {
	for key, value := range want {
		if got, found := record.Items()[key]; !found || got != value {
			return false
		}
	}
	return true
}
