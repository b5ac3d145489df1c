package tool

import (
	"context"
	"log/slog"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cmd/tool/view"
)

// world is what decisions depend on beside a Node and its record. Whether the guard policies are in force is checked as capture
// does it: for a caller who may not read them they are not.
func (c *cluster) world(ctx context.Context, source *policySource) (view.World, error) {
	p, err := source.read(ctx, c)
	if err != nil {
		return view.World{}, err
	}
	return view.World{Policy: p, Guarded: c.guarded(ctx), Now: c.now()}, nil
}

func (c *cluster) guarded(ctx context.Context) bool {
	guards := capture.NewGuards(c.client, slog.New(slog.DiscardHandler))
	guards.Check(ctx)
	return guards.InForce()
}
