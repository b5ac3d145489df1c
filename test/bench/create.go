package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// compared are the variants of a CREATE, first without and then with the gate policy.
var compared = []bed.Variant{
	{Name: "no webhook"},
	{Name: "no-op webhook", Answerer: bed.Noop},
	{Name: "constant patch, 1 annotation", Answerer: bed.Mark},
	{Name: "nodekeep, nothing to restore", Answerer: bed.Nodekeep},
	{Name: "constant patch, 10 labels", Answerer: bed.Labels},
	{Name: "nodekeep, 10 labels", Answerer: bed.Nodekeep, Recorded: true},
	{Name: "gate, no webhook", Gate: true},
	{Name: "gate, no-op webhook", Answerer: bed.Noop, Gate: true},
	{Name: "gate, constant patch, 10 labels", Answerer: bed.Labels, Gate: true},
	{Name: "gate, nodekeep, 10 labels", Answerer: bed.Nodekeep, Recorded: true, Gate: true},
}

// create measures what a CREATE costs under each variant, in turn.
func (b *bench) create(ctx context.Context) error {
	var recorded []string
	for round := range b.rounds + 1 {
		for _, atOnce := range b.parallel {
			recorded = append(recorded, bed.Names(kind("kept", round, atOnce), b.count)...)
		}
	}
	b.phase("write %d records", len(recorded))
	if _, err := b.AddRecords(ctx, recorded); err != nil {
		return err
	}
	if _, err := b.StartWebhook(ctx); err != nil {
		return err
	}
	found := cells{}
	for round := range b.rounds + 1 {
		b.phase("round %d of %d", round, b.rounds)
		for n := range compared {
			variant := compared[(n+round)%len(compared)] // no variant always comes after the same one
			if err := b.Use(ctx, variant); err != nil {
				return err
			}
			for _, atOnce := range b.parallel {
				load, err := b.registrations(ctx, variant, kind("kept", round, atOnce), atOnce)
				if err != nil {
					return err
				}
				if round > 0 { // in the first one connections are made and memory is grown
					found.add(variant.Name, atOnce, load)
				}
			}
		}
	}
	b.printCreate(found)
	return nil
}

// kind is the first part of names that are used once.
func kind(what string, round, atOnce int) string {
	return fmt.Sprintf("%s-%02d-%02d", what, round, atOnce)
}

// registrations has kubelets register, checks every answer, and takes the Nodes away again.
func (b *bench) registrations(ctx context.Context, variant bed.Variant, kind string, atOnce int) (measure.Load, error) {
	if !variant.Recorded {
		kind = "bare-" + kind
	}
	names := bed.Names(kind, b.count)
	load, err := measure.Run(ctx, names, atOnce, func(ctx context.Context, name string) error {
		node, err := b.Register(ctx, name)
		if err != nil {
			return err
		}
		return variant.Check(node)
	})
	if err != nil {
		return load, fmt.Errorf("measure %q: %w", variant.Name, err)
	}
	_, err = b.DeleteNodes(ctx, names)
	return load, err
}

// cells are the loads of each round, by variant and number of kubelets at once.
type cells map[string]map[int][]measure.Load

func (c cells) add(variant string, atOnce int, load measure.Load) {
	if c[variant] == nil {
		c[variant] = map[int][]measure.Load{}
	}
	c[variant][atOnce] = append(c[variant][atOnce], load)
}

// all are the rounds of a cell taken together.
func (c cells) all(variant string, atOnce int) (all measure.Load) {
	for _, load := range c[variant][atOnce] {
		all.Times = slices.Concat(all.Times, load.Times)
		all.Took += load.Took
	}
	return all
}

// ratio is how the p50 of two variants compare, as the median of all rounds: what the machine was busy with besides then
// counts for both.
func (c cells) ratio(one, other string, atOnce int) string {
	var ratios []float64
	for round, load := range c[one][atOnce] {
		ratios = append(ratios, float64(load.Times.Quantile(0.5))/float64(c[other][atOnce][round].Times.Quantile(0.5)))
	}
	return measure.Ratio(measure.Median(ratios), 1)
}

// printCreate prints the cells; each variant is compared with those before it in its half of the list.
func (b *bench) printCreate(found cells) {
	title := fmt.Sprintf("CREATE of a Node: %d rounds of %d for each cell", b.rounds, b.count)
	table := measure.NewTable(b.out, title, "at once", "variant", "p50", "p99", "CREATEs/s", "p50 / no webhook", "p50 / no-op", "p50 / same patch")
	for _, atOnce := range b.parallel {
		var bare, noop, patch string
		for _, variant := range compared {
			all := found.all(variant.Name, atOnce)
			row := []any{atOnce, variant.Name, measure.Milliseconds(all.Times.Quantile(0.5)), measure.Milliseconds(all.Times.Quantile(0.99)), fmt.Sprintf("%.0f", all.Rate())}
			switch variant.Answerer {
			case bed.Nobody:
				bare = variant.Name
				row = append(row, "1", "", "")
			case bed.Noop:
				noop = variant.Name
				row = append(row, found.ratio(variant.Name, bare, atOnce), "1", "")
			case bed.Mark, bed.Labels:
				patch = variant.Name
				row = append(row, found.ratio(variant.Name, bare, atOnce), found.ratio(variant.Name, noop, atOnce), "1")
			case bed.Nodekeep:
				row = append(row, found.ratio(variant.Name, bare, atOnce), found.ratio(variant.Name, noop, atOnce), found.ratio(variant.Name, patch, atOnce))
			}
			table.Row(row...)
		}
	}
	table.Flush()
	b.phase("done in %s", measure.Seconds(time.Since(b.began)))
}
