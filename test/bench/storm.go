package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// atOnceInStorm is how many kubelets register at once: enough to keep the API server busy all the time.
const atOnceInStorm = 64

// stormOf deletes Nodes and has them register again as fast as the API server takes them. Every one must register with all
// that it had and without the gate, and every record must follow.
func (b *bench) stormOf(ctx context.Context, pair both, nodes []string) error {
	nodes = nodes[:b.storm]
	b.phase("delete %d Nodes", len(nodes))
	load, err := b.DeleteNodes(ctx, nodes)
	if err != nil {
		return err
	}
	b.done("Nodes deleted", load)
	if err := b.settled(ctx, pair.capture); err != nil {
		return err
	}
	if err := b.rememberBoth(pair, fmt.Sprintf("after %d deletions", len(nodes))); err != nil {
		return err
	}
	b.phase("%d Nodes register again", len(nodes))
	back, uids, err := b.comeBack(ctx, nodes)
	if err != nil {
		return err
	}
	b.done("Nodes registered", back)
	began := time.Now()
	if err := b.settled(ctx, pair.capture); err != nil {
		return err
	}
	settled := max(0, time.Since(began)-settledLooks*settlePoll)
	if err := b.rememberBoth(pair, fmt.Sprintf("after %d registrations", len(nodes))); err != nil {
		return err
	}
	if err := b.follow(ctx, uids); err != nil {
		return err
	}
	failed, err := b.CallsFailedOpen(ctx)
	if err != nil {
		return err
	}
	table := measure.NewTable(b.out, fmt.Sprintf("Storm: %d Nodes register again, %d at once", len(nodes), atOnceInStorm),
		"missed", "calls failed open", "p50", "p90", "p99", "longest", "CREATEs/s", "until every record has followed")
	table.Row(0, failed, measure.Milliseconds(back.Times.Quantile(0.5)), measure.Milliseconds(back.Times.Quantile(0.9)), measure.Milliseconds(back.Times.Quantile(0.99)),
		measure.Milliseconds(back.Times.Quantile(1)), fmt.Sprintf("%.0f", back.Rate()), measure.Seconds(settled))
	table.Flush()
	return nil
}

// comeBack registers the Nodes and checks every answer. Labels that were changed meanwhile are not looked at.
func (b *bench) comeBack(ctx context.Context, nodes []string) (measure.Load, map[string]types.UID, error) {
	whole := bed.Variant{Answerer: bed.Nodekeep, Recorded: true, Gate: true}
	var mu sync.Mutex
	var missed []error
	uids := map[string]types.UID{}
	load, err := measure.Run(ctx, nodes, atOnceInStorm, func(ctx context.Context, name string) error {
		var node *corev1.Node
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
	if err == nil && len(missed) > 0 {
		err = fmt.Errorf("%d of %d Nodes registered without something, the first: %w", len(missed), len(nodes), missed[0])
	}
	return load, uids, err
}

// follow checks that the record of each Node has come to be that of the new object.
func (b *bench) follow(ctx context.Context, uids map[string]types.UID) error {
	behind := len(uids)
	err := b.EachRecord(ctx, func(record record.Record) {
		if uid, again := uids[record.Node]; again && record.Newest().UID == uid && record.DeletedAt.IsZero() && holds(record, bed.Kept()) {
			behind--
		}
	})
	if err == nil && behind > 0 {
		err = fmt.Errorf("%d records have not followed their Nodes", behind)
	}
	return err
}
