package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// restarts sends the CREATEs of kubelets that restart, whose Nodes exist, one Node after the other and over again. Nothing may
// be written.
func (b *bench) restarts(ctx context.Context, pair both, nodes []string) error {
	if err := b.settled(ctx, pair.capture); err != nil {
		return err
	}
	restarting := make([]string, b.settings.restarts)
	for i := range restarting {
		restarting[i] = nodes[i%len(nodes)]
	}
	b.phase("kubelets of %d Nodes restart %d times", len(nodes), len(restarting))
	before, err := b.allVersions(ctx)
	if err != nil {
		return err
	}
	start, err := pair.webhook.Usage()
	if err != nil {
		return err
	}
	load, err := measure.Run(ctx, restarting, atOnceInStorm, func(ctx context.Context, name string) error {
		_, err := b.Register(ctx, name)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("restart kubelet of node %q: it was not told that the Node exists: %w", name, err)
	})
	if err != nil {
		return err
	}
	end, err := pair.webhook.Usage()
	if err != nil {
		return err
	}
	if err := sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	after, err := b.allVersions(ctx)
	if err != nil {
		return err
	}
	records, changed := after.records.Changed(before.records), after.nodes.Changed(before.nodes)
	table := measure.NewTable(b.out, fmt.Sprintf("Restarts: %d CREATEs of %d Nodes that exist, %d at once", len(restarting), len(nodes), atOnceInStorm),
		"records written", "Nodes changed", "p50", "p99", "longest", "CREATEs/s", "CPU of webhook, a call")
	table.Row(records, changed, measure.Milliseconds(load.Times.Quantile(0.5)), measure.Milliseconds(load.Times.Quantile(0.99)), measure.Milliseconds(load.Times.Quantile(1)),
		fmt.Sprintf("%.0f", load.Rate()), measure.Milliseconds((end.CPU-start.CPU)/time.Duration(len(restarting))))
	table.Flush()
	if records+changed > 0 {
		return fmt.Errorf("restarts of kubelets wrote %d records and changed %d Nodes", records, changed)
	}
	return b.rememberBoth(pair, fmt.Sprintf("after %d restarts", len(restarting)))
}

// stored is what the API server holds of Nodes and records.
type stored struct {
	nodes, records bed.Versions
}

func (b *bench) allVersions(ctx context.Context) (s stored, err error) {
	if s.nodes, err = b.NodeVersions(ctx); err != nil {
		return s, err
	}
	s.records, err = b.RecordVersions(ctx)
	return s, err
}
