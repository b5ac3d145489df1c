package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// governedKeys is how many keys the benchmark governs.
const governedKeys = 20

// governing are the variants that show what governance costs; the first one is what the others are compared with.
var governing = []struct {
	name     string
	policies []string
}{
	{"guard policies", nil},
	{"and deny", []string{governance.DenyPolicy}},
	{"and deny, warn, audit", governance.PolicyNames()},
}

// governedBy are keys with long lists of values and patterns, of all modes.
func governedBy() governance.Settings {
	var settings governance.Settings
	for i := range governedKeys {
		key := governance.Key{
			Key: fmt.Sprintf("example.com/key-%d", i), Mode: []governance.Mode{governance.Deny, governance.Warn, governance.Audit}[i%3],
			Requires: []string{"example.com/other"}, Owners: []string{"group:platform-admins", "serviceaccount:ops/labeler"}, Immutable: i%2 == 0,
		}
		if i%4 == 3 {
			key.Pattern = `[a-z]{1,20}(-[0-9]{1,3}){0,5}`
		}
		for j := 0; key.Pattern == "" && j < 100; j++ {
			key.Values = append(key.Values, fmt.Sprintf("a-value-of-the-list-%d-%d", i, j))
		}
		settings.Keys = append(settings.Keys, key)
	}
	settings.Reserved = []string{"*.example.org/*", "reserved.example.com/*"}
	return settings
}

// governance measures heartbeats of kubelets without and with the admission policies of governance, in short turns. It compares the CPU time of
// the API server.
func (b *bench) governance(ctx context.Context) error {
	rules, errs := governance.Compile(governedBy(), field.NewPath("governance"))
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	b.Images = b.images
	if err := b.Use(ctx, bed.Variant{Gate: true, Guards: true}); err != nil {
		return err
	}
	nodes := bed.Names("beating", b.count)
	for _, name := range nodes {
		if _, err := b.Register(ctx, name); err != nil {
			return err
		}
	}
	if err := b.Govern(ctx, rules); err != nil {
		return err
	}
	atOnce := b.parallel[0]
	found := cells{}
	for round := range b.rounds + 1 {
		b.phase("round %d of %d", round, b.rounds)
		for n := range governing {
			variant := governing[(n+round)%len(governing)]
			if err := b.Enforce(ctx, nodes[0], variant.policies...); err != nil {
				return err
			}
			beats, err := timed(b.APIServerCPU, func() (measure.Load, error) { return measure.Run(ctx, nodes, atOnce, b.Heartbeat) })
			if err != nil {
				return fmt.Errorf("measure heartbeats: %w", err)
			}
			if round > 0 {
				found.add(variant.name, atOnce, beats)
			}
		}
	}
	title := fmt.Sprintf("Heartbeats with %d governed keys: %d rounds of %d for each row, CPU of the API server", governedKeys, b.rounds, b.count)
	table := measure.NewTable(b.out, title, "admission policies", "p50", "p99", "a second", "CPU each", "CPU / first", "median of rounds")
	first := found.all(governing[0].name, atOnce)
	for _, variant := range governing {
		all := found.all(variant.name, atOnce)
		var ratios []float64
		for round, cell := range found[variant.name][atOnce] {
			ratios = append(ratios, float64(cell.cpu)/float64(max(1, found[governing[0].name][atOnce][round].cpu)))
		}
		table.Row(append(append([]any{variant.name}, all.row()...), measure.Ratio(float64(all.cpu), float64(first.cpu)), fmt.Sprintf("%.3f", measure.Median(ratios)))...)
	}
	table.Flush()
	b.phase("done in %s", measure.Seconds(time.Since(b.began)))
	return nil
}
