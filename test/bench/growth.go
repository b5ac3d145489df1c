package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// Growth is measured with Nodes of their own that register and go again. smallest is the least number of records.
const (
	growthRounds = 8
	growthCount  = 100
	smallest     = 2 * growthCount
	calls        = 4000 // straight to the handler, at each size
	bodies       = 500  // different ones
)

// growthRow is what was found at one size.
type growthRow struct {
	records int
	handler measure.Times // calls straight to the webhook
	cpu     time.Duration // of the webhook, for each of them
	creates cells
}

// growth measures at a hundredth, a tenth and all of the records, which nobody has Nodes for.
func (b *bench) growth(ctx context.Context) error {
	if _, err := b.grow(ctx); err != nil {
		return err
	}
	b.printMemory()
	return nil
}

// grow writes the records of the population in three legs, measures after each with a webhook that has just started, and
// returns how the last leg went, during which nothing else ran.
func (b *bench) grow(ctx context.Context) (last measure.Load, err error) {
	names := slices.Concat(bed.Names("grow", growthCount), bed.Names("node", b.nodes-growthCount))
	var rows []growthRow
	written := 0
	for _, size := range slices.Compact([]int{max(b.nodes/100, smallest), max(b.nodes/10, smallest), b.nodes}) {
		if last, err = b.AddRecords(ctx, names[written:size]); err != nil {
			return last, err
		}
		b.done("records written in a bare loop", last)
		written = size
		row, err := b.measureAt(ctx, names[:size], size == b.nodes)
		if err != nil {
			return last, err
		}
		rows = append(rows, row)
	}
	b.printGrowth(rows)
	return last, nil
}

func (b *bench) measureAt(ctx context.Context, names []string, largest bool) (row growthRow, err error) {
	webhook, err := b.StartWebhook(ctx)
	if err != nil {
		return row, err
	}
	b.started("webhook", fmt.Sprintf("%d records", len(names)), webhook)
	if err := b.remember(webhook, fmt.Sprintf("has read %d records", len(names))); err != nil {
		return row, err
	}
	if largest {
		if err := b.rest(ctx, webhook, "half a minute later"); err != nil {
			return row, err
		}
	}
	row = growthRow{records: len(names), creates: cells{}}
	if err := b.callDirectly(ctx, webhook, names, &row); err != nil {
		return row, err
	}
	for range growthRounds {
		for _, variant := range []bed.Variant{{Name: "patch", Answerer: bed.Labels}, {Name: "nodekeep", Answerer: bed.Nodekeep, Recorded: true}} {
			if err := b.Use(ctx, variant); err != nil {
				return row, err
			}
			load, err := b.registrations(ctx, variant, bed.Names("grow", growthCount), 1)
			if err != nil {
				return row, err
			}
			row.creates.add(variant.Name, 1, load)
		}
	}
	if err := b.Use(ctx, bed.Variant{}); err != nil {
		return row, err
	}
	if err := b.remember(webhook, fmt.Sprintf("has answered %d calls", calls+growthRounds*growthCount)); err != nil {
		return row, err
	}
	return row, webhook.Stop()
}

// callDirectly calls the webhook for Nodes from all over the records, one at a time.
func (b *bench) callDirectly(ctx context.Context, webhook *bed.Program, names []string, row *growthRow) error {
	caller, err := b.CallWebhook(ctx)
	if err != nil {
		return err
	}
	body := map[string][]byte{}
	var chosen []string
	for n := range bodies {
		name := names[n*len(names)/bodies]
		if body[name], err = b.Review(name); err != nil {
			return err
		}
		chosen = append(chosen, name)
	}
	call := func(ctx context.Context, name string) error { return caller.Call(ctx, body[name]) }
	if _, err := measure.Run(ctx, chosen, 1, call); err != nil { // once to warm up
		return err
	}
	before, err := webhook.Usage()
	if err != nil {
		return err
	}
	load, err := measure.Run(ctx, slices.Repeat(chosen, calls/bodies), 1, call)
	if err != nil {
		return err
	}
	after, err := webhook.Usage()
	if err != nil {
		return err
	}
	row.handler, row.cpu = load.Times, (after.CPU-before.CPU)/calls
	return nil
}

func (b *bench) printGrowth(rows []growthRow) {
	title := fmt.Sprintf("Growth: %d calls straight to the handler and %d rounds of %d CREATEs at each size, one at a time", calls, growthRounds, growthCount)
	table := measure.NewTable(b.out, title, "records", "handler p50", "p99", "CPU a call", "CPU / smallest", "CREATE p50", "p99", "p50 / smallest", "p50 / same patch", "the same / smallest")
	const once = 1
	against := func(row growthRow) float64 { return row.creates.ratio("nodekeep", "patch", once) }
	for _, row := range rows {
		create, first := row.creates.all("nodekeep", once).Times, rows[0].creates.all("nodekeep", once).Times
		table.Row(row.records, measure.Milliseconds(row.handler.Quantile(0.5)), measure.Milliseconds(row.handler.Quantile(0.99)),
			measure.Milliseconds(row.cpu), measure.Ratio(float64(row.cpu), float64(rows[0].cpu)),
			measure.Milliseconds(create.Quantile(0.5)), measure.Milliseconds(create.Quantile(0.99)),
			measure.Ratio(float64(create.Quantile(0.5)), float64(first.Quantile(0.5))),
			measure.Ratio(against(row), 1), measure.Ratio(against(row), against(rows[0])))
	}
	table.Flush()
}
