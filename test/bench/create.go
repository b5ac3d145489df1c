package main

import (
	"context"
	"fmt"
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
				names := bed.Names(kind("kept", round, atOnce), b.count)
				if !variant.Recorded {
					names = bed.Names(kind("bare", round, atOnce), b.count)
				}
				load, err := b.registrations(ctx, variant, names, atOnce)
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
func (b *bench) registrations(ctx context.Context, variant bed.Variant, names []string, atOnce int) (round cell, err error) {
	round, err = timed(b.CPU, func() (measure.Load, error) {
		return measure.Run(ctx, names, atOnce, func(ctx context.Context, name string) error {
			node, err := b.Register(ctx, name)
			if err != nil {
				return err
			}
			return variant.Check(node)
		})
	})
	if err != nil {
		return round, fmt.Errorf("measure %q: %w", variant.Name, err)
	}
	_, err = b.DeleteNodes(ctx, names)
	return round, err
}

// printCreate prints the cells; each variant is compared with those before it in its half of the list.
func (b *bench) printCreate(found cells) {
	title := fmt.Sprintf("CREATE of a Node: %d rounds of %d for each cell", b.rounds, b.count)
	table := measure.NewTable(b.out, title, "at once", "variant", "p50", "p99", "CREATEs/s", "CPU a CREATE", "p50 / no webhook", "p50 / no-op", "CPU / no-op", "p50 / same patch", "CPU / same patch")
	for _, atOnce := range b.parallel {
		var bare, noop, patch string
		for _, variant := range compared {
			switch variant.Answerer {
			case bed.Nobody:
				bare, noop, patch = variant.Name, "", ""
			case bed.Noop:
				noop = variant.Name
			case bed.Mark, bed.Labels:
				patch = variant.Name
			case bed.Nodekeep:
			}
			row := append([]any{atOnce, variant.Name}, found.all(variant.Name, atOnce).row()...)
			row = append(row, found.against(variant.Name, bare, atOnce)[0])
			row = append(row, found.against(variant.Name, noop, atOnce)...)
			table.Row(append(row, found.against(variant.Name, patch, atOnce)...)...)
		}
	}
	table.Flush()
	b.phase("done in %s", measure.Seconds(time.Since(b.began)))
}
