package main

import (
	"context"
	"fmt"
	"slices"

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
func (b *bench) create(ctx context.Context) {
	var recorded []string
	for round := range b.rounds + 1 {
		for _, atOnce := range b.parallel {
			recorded = append(recorded, bed.Names(kind("kept", round, atOnce), b.count)...)
		}
	}
	b.phase("write %d records", len(recorded))
	b.AddRecords(ctx, recorded)
	b.StartWebhook(ctx)
	found := cells{}
	b.inTurn(b.rounds, len(compared), func(round, n int) {
		variant := compared[n]
		b.Use(ctx, variant)
		for _, atOnce := range b.parallel {
			names := bed.Names(kind("kept", round, atOnce), b.count)
			if !variant.Recorded {
				names = bed.Names(kind("bare", round, atOnce), b.count)
			}
			found.add(round, variant.Name, atOnce, b.registrations(ctx, variant, names, atOnce))
		}
	})
	b.printCreate(found)
}

// kind returns the first part of names that are used once.
func kind(name string, round, atOnce int) string {
	return fmt.Sprintf("%s-%02d-%02d", name, round, atOnce)
}

// registrations has kubelets register, checks every answer, and takes the Nodes away again.
func (b *bench) registrations(ctx context.Context, variant bed.Variant, names []string, atOnce int) cell {
	round := timed(b.CPU, func() measure.Load {
		return b.Load(ctx, names, atOnce, func(ctx context.Context, name string) error {
			node, err := b.Register(ctx, name)
			if err == nil {
				err = variant.Check(node)
			}
			if err != nil {
				return fmt.Errorf("measure %q: %w", variant.Name, err)
			}
			return nil
		})
	})
	b.DeleteNodes(ctx, names)
	return round
}

// printCreate prints the cells; each variant is compared with those before it in its half of the list.
func (b *bench) printCreate(found cells) {
	title := fmt.Sprintf("CREATE of a Node: %d rounds of %d for each cell", b.rounds, b.count)
	ratios := []string{"p50 / no webhook", "p50 / no-op", "CPU / no-op", "p50 / same patch", "CPU / same patch"}
	table := b.table(title, slices.Concat([]string{"at once", "variant"}, rowColumns, ratios)...)
	for _, atOnce := range b.parallel {
		var bare, noop, patch string
		for _, variant := range compared {
			switch variant.Answerer {
			case bed.NoWebhook:
				bare, noop, patch = variant.Name, "", ""
			case bed.Noop:
				noop = variant.Name
			case bed.Mark, bed.Labels:
				patch = variant.Name
			case bed.Nodekeep:
			}
			table.Row(atOnce, variant.Name, found.all(variant.Name, atOnce).row(), found.against(variant.Name, bare, atOnce)[0],
				found.against(variant.Name, noop, atOnce), found.against(variant.Name, patch, atOnce))
		}
	}
	table.Flush()
	b.phase("done")
}
