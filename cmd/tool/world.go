package tool

import (
	"context"
	"log/slog"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cmd/tool/view"
)

// world is what decisions depend on beside a Node and its record. Whether the gate policy is in force is looked at as capture
// does: who may not read that is told that it is taken not to be.
func (c *cluster) world(ctx context.Context, source *policySource) (view.World, error) {
	p, err := source.read(ctx, c)
	if err != nil {
		return view.World{}, err
	}
	gatekeeping := capture.NewGatekeeping(c.client, c.namespace, slog.New(slog.DiscardHandler))
	gatekeeping.Look(ctx)
	return view.World{Policy: p, BornGated: gatekeeping.Kept, Now: c.now()}, nil
}
