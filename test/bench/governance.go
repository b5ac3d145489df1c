package main

import (
	"context"
	"fmt"
	"slices"

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

// governedBy returns keys with long lists of values and patterns, of all modes.
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
func (b *bench) governance(ctx context.Context) {
	nodes := b.beating(ctx, bed.Variant{Gate: true, Guards: true})
	b.Govern(ctx, governedBy())
	atOnce := b.parallel[0]
	found := cells{}
	b.inTurn(b.rounds, len(governing), func(round, n int) {
		b.Enforce(ctx, nodes[0], governing[n].policies...)
		beats := timed(b.APIServerCPU, func() measure.Load { return b.Load(ctx, nodes, atOnce, b.Heartbeat) })
		found.add(round, governing[n].name, atOnce, beats)
	})
	title := fmt.Sprintf("Heartbeats with %d governed keys: %d rounds of %d for each row, CPU of the API server", governedKeys, b.rounds, b.count)
	table := b.table(title, slices.Concat([]string{"admission policies"}, rowColumns, []string{"CPU / first", "median of rounds"})...)
	first := governing[0].name
	for _, variant := range governing {
		all := found.all(variant.name, atOnce)
		var ratios []float64
		for round, cell := range found[variant.name][atOnce] {
			ratios = append(ratios, float64(cell.cpu)/float64(max(1, found[first][atOnce][round].cpu)))
		}
		ofFirst := measure.Ratio(float64(all.cpu), float64(found.all(first, atOnce).cpu))
		table.Row(variant.name, all.row(), ofFirst, fmt.Sprintf("%.3f", measure.Median(ratios)))
	}
	table.Flush()
	b.phase("done")
}
