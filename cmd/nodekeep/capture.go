package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"nodekeep.dev/nodekeep/api/v1alpha1"
	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/store"
)

func runCapture(ctx context.Context, o *captureOptions, p *process) error {
	p.suspends()
	events, flush := newEvents(p.client, "nodekeep-capture")
	defer flush()
	cluster := store.NewCluster(p.client, p.logger)
	controller, err := capture.New(capture.Options{
		Client:       p.client,
		Records:      p.records,
		Policy:       p.policy.Policy,
		PolicySource: p.policy,
		Events:       events,
		Guard:        guard.New(p.client, p.logger),
		ClusterUID:   cluster.UID,
		Metrics:      capture.NewMetrics(p.registry),
		Logger:       p.logger,
		Namespace:    o.namespace,
		Workers:      o.workers,
		Resync:       o.resync,

		LabelPatchesPerSecond: o.patches,
		InventoryFiles:        o.inventoryDir,
		Dynamic:               p.objects,
	})
	if err != nil {
		return err
	}
	if err := p.records.OnChange(controller.Enqueue, controller.NoteRecordVanished); err != nil {
		return err
	}

	// A fraction of 0 is a dry run of what would be collected by default.
	dryRun, fraction := o.sweepFraction == 0, o.sweepFraction
	if dryRun {
		fraction = gc.DefaultSweepFraction
	}
	sweeper := gc.New(gc.Options{
		Records: p.records, Controller: controller, Policy: p.policy.Policy, PolicyIsFallback: p.policy.Stopgap, Now: time.Now, Logger: p.logger,
		Metrics: gc.NewMetrics(p.registry), Interval: o.sweepEvery, Fraction: fraction,
		Remover: gc.Remover{Records: p.records, Client: p.client, DryRun: dryRun},
	})

	governed := guard.Governance{Client: p.client, Namespace: o.namespace, Names: governance.PolicyNames()}
	reporter := nodepolicy.Reporter{
		Source: p.policy, Leading: func() bool { return controller.Leading() && controller.Synced() }, Nodes: controller.LiveNodes,
		Governed: func(ctx context.Context) (unread bool, problem error) {
			problem = governed.Problem(ctx)
			return errors.Is(problem, guard.ErrUnread), problem
		},
		Held: func() (*v1alpha1.HeldRules, bool) {
			held, known := controller.HeldRules()
			if held == nil {
				return nil, known
			}
			return &v1alpha1.HeldRules{Rules: held.Hash, Nodes: int64(held.Nodes)}, known
		},
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { p.records.Run(ctx); return nil })
	p.withPolicy(ctx, group, func() error { return controller.Run(ctx, p.records.Synced) })
	p.withPolicy(ctx, group, func() error { reporter.Run(ctx); return nil })
	group.Go(func() error { cluster.Run(ctx); return nil })
	p.withPolicy(ctx, group, func() error { sweeper.Run(ctx, p.records.Synced, controller.Synced); return nil })
	p.withPolicy(ctx, group, func() error { return p.lead(ctx, o.leaderElect, capture.LeaseName, controller.Lead) })
	p.serve(ctx, group, controller.EnqueueAll, controller.ReportPolicy, synced("records", p.records.Synced), synced("nodes", controller.Synced))
	return ended(group)
}
