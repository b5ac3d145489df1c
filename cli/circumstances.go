package cli

import (
	"context"
	"log/slog"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// circumstances is what decisions depend on beside a Node and its record. Whether the guard policies are in force, and which cluster
// this is, is read as capture does it: for a caller who may not read them the policies are not, and no record is of another cluster.
func (c *cluster) circumstances(ctx context.Context, source *policySource) (capture.Circumstances, error) {
	p, err := source.read(ctx, c)
	if err != nil {
		return capture.Circumstances{}, err
	}
	return c.under(ctx, p), nil
}

// under is what decisions depend on under a policy.
func (c *cluster) under(ctx context.Context, p policy.Policy) capture.Circumstances {
	quiet := slog.New(slog.DiscardHandler)
	guards, of := guard.New(c.client, quiet), store.NewCluster(c.client, quiet)
	guards.Check(ctx)
	_ = of.Read(ctx)
	return capture.Circumstances{Policy: p, Guarded: guards.InForce(), Cluster: of.UID(), Now: c.now()}
}
