package main

import (
	"context"
	"fmt"

	"nodekeep.dev/nodekeep/test/bench/bed"
)

// steadyAlone measures label changes on a population of its own. First it measures their cost without capture, then with both processes at work.
func (b *bench) steadyAlone(ctx context.Context) error {
	nodes := bed.Names("node", b.nodes)
	b.Images = b.images
	b.phase("make %d Nodes of %d images", len(nodes), b.images)
	if _, err := b.AddNodes(ctx, nodes); err != nil {
		return err
	}
	if err := b.uncaptured(ctx, nodes); err != nil {
		return err
	}
	first, err := b.StartCapture(ctx, "")
	if err != nil {
		return err
	}
	if err := b.settled(ctx, first); err != nil {
		return err
	}
	if err := b.whole(ctx); err != nil {
		return fmt.Errorf("first capture: %w", err)
	}
	if err := first.Stop(); err != nil {
		return err
	}
	pair, err := b.startBoth(ctx)
	if err != nil {
		return err
	}
	return b.steady(ctx, pair, nodes)
}
