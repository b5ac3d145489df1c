package main

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"nodekeep.dev/nodekeep/leader"
)

// serve adds to a group what every process does besides its own work, until ctx is done. It calls changed and wrong as [nodepolicy.Source.Run] says.
func (p *process) serve(ctx context.Context, group *errgroup.Group, changed func(), wrong func(error), ready ...check) {
	group.Go(func() error {
		p.policy.Run(ctx, changed, wrong)
		return nil
	})
	ready = append([]check{synced("policy", p.policy.Known)}, ready...)
	group.Go(func() error { return p.serveMetrics(ctx) })
	group.Go(func() error { return p.serveProfiles(ctx) })
	group.Go(func() error { return p.serveHTTP(ctx, p.options.probeAddr, probes(ready), nil, 0) })
}

// withPolicy adds to a group what needs to know which policy is in force. It begins once that is known.
func (p *process) withPolicy(ctx context.Context, group *errgroup.Group, fn func() error) {
	group.Go(func() error {
		if !p.policy.Wait(ctx) {
			return nil // stopped before
		}
		return fn()
	})
}

// lead calls do once this process leads by the Lease; at once without an election.
func (p *process) lead(ctx context.Context, elect bool, lease string, fn func()) error {
	if !elect {
		fn()
		return nil
	}
	lead := func() {
		p.logger.Info("leading")
		fn()
	}
	return leader.Elect(ctx, p.client, p.options.namespace, lease, lead, p.yields.Store)
}

// ended waits for a group. That it was told to stop is no error.
func ended(group *errgroup.Group) error {
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
