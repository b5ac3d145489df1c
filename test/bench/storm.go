package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// atOnceInStorm is how many kubelets register at once: enough to keep the API server busy all the time.
const atOnceInStorm = 64

// stormOf deletes Nodes and has them register again as fast as the API server takes them. Every one must register with all
// that it had and without the gate, and every record must follow.
func (b *bench) stormOf(ctx context.Context, pair comparison, nodes []string) {
	nodes = nodes[:b.storm]
	b.phase("delete %d Nodes", len(nodes))
	b.done("Nodes deleted", b.DeleteNodes(ctx, nodes))
	b.settled(ctx, pair.capture)
	b.rememberBoth(pair, fmt.Sprintf("after %d deletions", len(nodes)))
	b.phase("%d Nodes register again", len(nodes))
	before := b.CreateParts(ctx)
	returned, uids := b.comeBack(ctx, nodes)
	parts := b.CreateParts(ctx).Since(before)
	b.done("Nodes registered", returned)
	began := time.Now()
	b.settled(ctx, pair.capture)
	settled := max(0, time.Since(began)-settledLooks*settlePoll)
	b.rememberBoth(pair, fmt.Sprintf("after %d registrations", len(nodes)))
	b.watchRecords(ctx, uids)
	table := b.table(fmt.Sprintf("Storm: %d Nodes register again, %d at once", len(nodes), atOnceInStorm),
		"missed", "calls failed open", "p50", "p90", "p99", "longest", "CREATEs/s", "until every record has followed")
	table.Row(0, b.CallsFailedOpen(ctx), returned.Times.Milliseconds(0.5, 0.9, 0.99, 1), fmt.Sprintf("%.0f", returned.Rate()), measure.Seconds(settled))
	table.Flush()
	b.printParts(parts)
}

// printParts prints where the time of CREATEs went, by the API server's own metrics.
func (b *bench) printParts(parts bed.CreateParts) {
	mean := func(all time.Duration) string {
		return measure.Milliseconds(time.Duration(float64(all) / max(1, parts.Count)))
	}
	table := b.table(fmt.Sprintf("Where the time of these %.0f CREATEs went in the API server, a CREATE", parts.Count),
		"all of it", "in webhooks", "before priority and fairness let it in", "without both longer than 1 s, of which the objective of Kubernetes allows 1 %")
	table.Row(mean(parts.Whole), mean(parts.Webhook), mean(parts.Queued), fmt.Sprintf("%.0f", parts.Count-parts.WithinObjective))
	table.Flush()
}

// comeBack registers the Nodes and checks every answer. Labels that were changed meanwhile are not looked at.
func (b *bench) comeBack(ctx context.Context, nodes []string) (measure.Load, map[string]types.UID) {
	whole := bed.Variant{Answerer: bed.Nodekeep, Recorded: true, Gate: true}
	var mu sync.Mutex
	var missed []error
	uids := map[string]types.UID{}
	load := b.Load(ctx, nodes, atOnceInStorm, func(ctx context.Context, name string) error {
		node, err := b.Register(ctx, name)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		uids[name] = node.UID
		if err := whole.Check(node); err != nil {
			missed = append(missed, err)
		}
		return nil
	})
	if len(missed) > 0 {
		require.NoError(b, missed[0], "%d of %d Nodes registered without something, the first of them", len(missed), len(nodes))
	}
	return load, uids
}

// watchRecords checks that the record of each Node has come to be that of the new object.
func (b *bench) watchRecords(ctx context.Context, uids map[string]types.UID) {
	behind := len(uids)
	b.EachRecord(ctx, func(record record.Record) {
		if uid, ok := uids[record.Node]; ok && record.Newest().UID == uid && record.DeletedAt.IsZero() && harness.HasAll(record.Items(), bed.Kept()) {
			behind--
		}
	})
	require.Zero(b, behind, "records that have not followed their Nodes")
}
