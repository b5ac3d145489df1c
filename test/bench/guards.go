package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// guarding are the variants that show what the guard policies cost. The first one is the reference.
var guarding = []bed.Variant{
	{Name: "gate", Gate: true},
	{Name: "gate and guard policies", Gate: true, Guards: true},
}

// guards measures heartbeats and CREATEs of kubelets without and with the guard policies, in turn.
func (b *bench) guards(ctx context.Context) {
	nodes := b.beating(ctx, guarding[0])
	heartbeats, creations := cells{}, cells{}
	b.inTurn(b.rounds, len(guarding), func(round, n int) {
		variant := guarding[n]
		b.Use(ctx, variant)
		for _, atOnce := range b.parallel {
			heartbeats.add(round, variant.Name, atOnce, timed(b.CPU, func() measure.Load { return b.Load(ctx, nodes, atOnce, b.Heartbeat) }))
			names := bed.Names(kind("bare", round, atOnce), b.count)
			creations.add(round, variant.Name, atOnce, b.registrations(ctx, variant, names, atOnce))
		}
	})
	b.printGuards("Heartbeats (PATCH of nodes/status)", heartbeats)
	b.printGuards("CREATE of a Node, no webhook", creations)
	b.phase("done")
}

// beating registers the Nodes whose heartbeats are measured, under a variant.
func (b *bench) beating(ctx context.Context, variant bed.Variant) []string {
	nodes := bed.Names("beating", b.count)
	b.Use(ctx, variant)
	for _, name := range nodes {
		_, err := b.Register(ctx, name)
		require.NoError(b, err)
	}
	return nodes
}

func (b *bench) printGuards(name string, found cells) {
	title := fmt.Sprintf("%s: %d rounds of %d for each cell", name, b.rounds, b.count)
	table := b.table(title, slices.Concat([]string{"at once", "variant"}, rowColumns, []string{"p50 / gate", "CPU / gate"})...)
	for _, atOnce := range b.parallel {
		for _, variant := range guarding {
			table.Row(atOnce, variant.Name, found.all(variant.Name, atOnce).row(), found.against(variant.Name, guarding[0].Name, atOnce))
		}
	}
	table.Flush()
}
