package main

import (
	"context"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// guarding are the variants that show what the guard policies cost. The first one is the reference.
var guarding = []bed.Variant{
	{Name: "gate", Gate: true},
	{Name: "gate and guard policies", Gate: true, Guards: true},
}

// guards measures heartbeats and CREATEs of kubelets without and with the guard policies, in turn.
func (b *bench) guards(ctx context.Context) error {
	nodes := bed.Names("beating", b.count)
	if err := b.Use(ctx, guarding[0]); err != nil {
		return err
	}
	for _, name := range nodes {
		if _, err := b.Register(ctx, name); err != nil {
			return err
		}
	}
	heartbeats, creations := cells{}, cells{}
	for round := range b.rounds + 1 {
		b.phase("round %d of %d", round, b.rounds)
		for n := range guarding {
			variant := guarding[(n+round)%len(guarding)]
			if err := b.Use(ctx, variant); err != nil {
				return err
			}
			for _, atOnce := range b.parallel {
				beats, err := timed(b.CPU, func() (measure.Load, error) { return measure.Run(ctx, nodes, atOnce, b.Heartbeat) })
				if err != nil {
					return fmt.Errorf("measure heartbeats: %w", err)
				}
				load, err := b.registrations(ctx, variant, bed.Names(kind("bare", round, atOnce), b.count), atOnce)
				if err != nil {
					return err
				}
				if round > 0 {
					heartbeats.add(variant.Name, atOnce, beats)
					creations.add(variant.Name, atOnce, load)
				}
			}
		}
	}
	b.printGuards("Heartbeats (PATCH of nodes/status)", heartbeats)
	b.printGuards("CREATE of a Node, no webhook", creations)
	b.phase("done in %s", measure.Seconds(time.Since(b.began)))
	return nil
}

func (b *bench) printGuards(what string, found cells) {
	title := fmt.Sprintf("%s: %d rounds of %d for each cell", what, b.rounds, b.count)
	table := measure.NewTable(b.out, title, "at once", "variant", "p50", "p99", "a second", "CPU each", "p50 / gate", "CPU / gate")
	for _, atOnce := range b.parallel {
		for _, variant := range guarding {
			row := append([]any{atOnce, variant.Name}, found.all(variant.Name, atOnce).row()...)
			table.Row(append(row, found.against(variant.Name, guarding[0].Name, atOnce)...)...)
		}
	}
	table.Flush()
}
