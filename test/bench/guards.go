package main

import (
	"context"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// guarding are the variants that show what the guard policies cost; the first one is what the other is compared with.
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
				beats, err := b.beats(ctx, nodes, atOnce)
				if err != nil {
					return err
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

// beats has each kubelet report its status once.
func (b *bench) beats(ctx context.Context, nodes []string, atOnce int) (round cell, err error) {
	before, err := b.CPU()
	if err != nil {
		return round, err
	}
	if round.Load, err = measure.Run(ctx, nodes, atOnce, b.Heartbeat); err != nil {
		return round, fmt.Errorf("measure heartbeats: %w", err)
	}
	after, err := b.CPU()
	round.cpu = after - before
	return round, err
}

func (b *bench) printGuards(what string, found cells) {
	title := fmt.Sprintf("%s: %d rounds of %d for each cell", what, b.rounds, b.count)
	table := measure.NewTable(b.out, title, "at once", "variant", "p50", "p99", "a second", "CPU each", "p50 / gate", "CPU / gate")
	for _, atOnce := range b.parallel {
		without := guarding[0].Name
		for _, variant := range guarding {
			all, p50, cpu := found.all(variant.Name, atOnce), "", ""
			if variant.Name != without {
				p50 = measure.Ratio(found.ratio(variant.Name, without, atOnce), 1)
				cpu = measure.Ratio(float64(all.each()), float64(found.all(without, atOnce).each()))
			}
			table.Row(atOnce, variant.Name, measure.Milliseconds(all.Times.Quantile(0.5)), measure.Milliseconds(all.Times.Quantile(0.99)), fmt.Sprintf("%.0f", all.Rate()),
				measure.Milliseconds(all.each()), p50, cpu)
		}
	}
	table.Flush()
}
