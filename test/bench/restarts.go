package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// restarts sends the CREATEs of kubelets that restart, whose Nodes exist, one Node after the other and over again. Nothing may
// be written.
func (b *bench) restarts(ctx context.Context, pair comparison, nodes []string) {
	b.settled(ctx, pair.capture)
	restarting := make([]string, b.settings.restarts)
	for i := range restarting {
		restarting[i] = nodes[i%len(nodes)]
	}
	b.phase("kubelets of %d Nodes restart %d times", len(nodes), len(restarting))
	nodesBefore, recordsBefore := b.NodeVersions(ctx), b.RecordVersions(ctx)
	round := timed(pair.webhook.CPU, func() measure.Load {
		return b.Load(ctx, restarting, atOnceInStorm, func(ctx context.Context, name string) error {
			_, err := b.Register(ctx, name)
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return fmt.Errorf("restart kubelet of node %q: it was not told that the Node exists: %w", name, err)
		})
	})
	b.sleep(ctx, 2*time.Second)
	records, changed := b.RecordVersions(ctx).Changed(recordsBefore), b.NodeVersions(ctx).Changed(nodesBefore)
	table := b.table(fmt.Sprintf("Restarts: %d CREATEs of %d Nodes that exist, %d at once", len(restarting), len(nodes), atOnceInStorm),
		"records written", "Nodes changed", "p50", "p99", "longest", "CREATEs/s", "CPU of webhook, a call")
	table.Row(records, changed, round.Times.Milliseconds(0.5, 0.99, 1), fmt.Sprintf("%.0f", round.Rate()), measure.Milliseconds(round.perNode()))
	table.Flush()
	require.Zero(b, records+changed, "restarts of kubelets wrote %d records and changed %d Nodes", records, changed)
	b.rememberBoth(pair, fmt.Sprintf("after %d restarts", len(restarting)))
}
