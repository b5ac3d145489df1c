package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// scale measures everything that needs a large population. Its order matters: one part leaves what the next one needs.
func (b *bench) scale(ctx context.Context) {
	nodes := b.population(ctx)
	b.controlPlane()
	bare := b.grow(ctx)
	written := slices.Concat(bed.Names("grow", growthCount), nodes[:b.nodes-growthCount])
	b.done("records deleted again", b.DeleteRecords(ctx, written))
	runtime.GC()
	b.firstCapture(ctx, bare)
	pair := b.startBoth(ctx)
	b.steady(ctx, pair, nodes)
	b.heartbeats(ctx, pair, nodes)
	b.stormOf(ctx, pair, nodes)
	b.restarts(ctx, pair, nodes)
	b.memory.Flush()
	b.starts.Flush()
	b.controlPlane()
	b.phase("done")
}

// population makes the Nodes.
func (b *bench) population(ctx context.Context) []string {
	nodes := bed.Names("node", b.nodes)
	b.phase("make %d Nodes of %d images", len(nodes), b.Images)
	b.done("Nodes", b.AddNodes(ctx, nodes))
	return nodes
}

// comparison are the two processes at work.
type comparison struct {
	webhook, capture *bed.Program
}

// startBoth starts both processes with all Nodes and all records there, and has the API server call the webhook.
func (b *bench) startBoth(ctx context.Context) (pair comparison) {
	place := fmt.Sprintf("%d Nodes, %d records", b.nodes, b.nodes)
	pair.capture = b.StartCapture(ctx, "")
	b.started("capture", place, pair.capture)
	b.remember(pair.capture, "has read "+place)
	pair.webhook = b.StartWebhook(ctx)
	b.rest(ctx, pair.capture, "half a minute later")
	require.NoError(b, measure.ForgetPeak(pair.webhook.Pid()))
	b.Install(ctx)
	return pair
}

// rememberBoth notes the memory of both.
func (b *bench) rememberBoth(pair comparison, moment string) {
	b.remember(pair.webhook, moment)
	b.remember(pair.capture, moment)
}

// settled waits until capture has nothing left to do.
func (b *bench) settled(ctx context.Context, capture *bed.Program) {
	steps, quiet := 0, 0
	b.Wait(ctx, patience, settlePoll, "capture has settled", func(ctx context.Context) (bool, error) {
		series := capture.Series(ctx)
		now := int(series.Sum(stepsSeries))
		if now != steps || series.Sum("nodekeep_controller_queue_length") > 0 {
			steps, quiet = now, 0
			return false, nil
		}
		quiet++
		return quiet >= settledLooks, nil
	})
}
