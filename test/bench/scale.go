package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// scale measures everything that needs a large population. Its order matters: one part leaves what the next one needs.
func (b *bench) scale(ctx context.Context) error {
	nodes := bed.Names("node", b.nodes)
	b.phase("make %d Nodes of 50 images", len(nodes))
	load, err := b.AddNodes(ctx, nodes)
	if err != nil {
		return err
	}
	b.done("Nodes", load)
	b.controlPlane()
	bare, err := b.grow(ctx)
	if err != nil {
		return err
	}
	written := slices.Concat(bed.Names("grow", growthCount), nodes[:b.nodes-growthCount])
	if load, err = b.DeleteRecords(ctx, written); err != nil {
		return err
	}
	b.done("records deleted again", load)
	runtime.GC()
	if err := b.firstCapture(ctx, bare); err != nil {
		return err
	}
	pair, err := b.startBoth(ctx)
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, both, []string) error{b.steady, b.heartbeats, b.stormOf, b.restarts} {
		if err := part(ctx, pair, nodes); err != nil {
			return err
		}
	}
	b.printMemory()
	b.printStarts()
	b.controlPlane()
	b.phase("done")
	return nil
}

// both are the two processes at work.
type both struct {
	webhook, capture *bed.Program
}

// startBoth starts both processes with all Nodes and all records there, and has the API server call the webhook.
func (b *bench) startBoth(ctx context.Context) (pair both, err error) {
	there := fmt.Sprintf("%d Nodes, %d records", b.nodes, b.nodes)
	if pair.capture, err = b.StartCapture(ctx, ""); err != nil {
		return pair, err
	}
	b.started("capture", there, pair.capture)
	if err := b.remember(pair.capture, "has read "+there); err != nil {
		return pair, err
	}
	if pair.webhook, err = b.StartWebhook(ctx); err != nil {
		return pair, err
	}
	if err := b.rest(ctx, pair.capture, "half a minute later"); err != nil {
		return pair, err
	}
	if err := measure.ForgetPeak(pair.webhook.Pid()); err != nil {
		return pair, err
	}
	return pair, b.Install(ctx)
}

// rememberBoth notes the memory of both.
func (b *bench) rememberBoth(pair both, moment string) error {
	if err := b.remember(pair.webhook, moment); err != nil {
		return err
	}
	return b.remember(pair.capture, moment)
}

// settled waits until capture has nothing left to do.
func (b *bench) settled(ctx context.Context, capture *bed.Program) error {
	steps, quiet := 0, 0
	err := bed.Await(ctx, patience, settlePoll, func(ctx context.Context) (bool, error) {
		series, err := capture.Series(ctx)
		if err != nil {
			return false, err
		}
		now := int(series.Sum(stepsSeries))
		if now != steps || series.Sum("nodekeep_capture_queue_length") > 0 {
			steps, quiet = now, 0
			return false, nil
		}
		quiet++
		return quiet >= settledLooks, nil
	})
	if err != nil {
		return fmt.Errorf("wait until capture has settled: %w", err)
	}
	return nil
}
