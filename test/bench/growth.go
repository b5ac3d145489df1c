package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// Growth is measured with Nodes of their own that register and go again. smallest is the least number of records.
const (
	growthRounds = 8
	growthCount  = 100 // CREATEs in each round, at each size
	growthCalls  = 500 // calls straight to the handler in each round, at each size
	smallest     = 2 * growthCount
)

// size is a webhook with so many records, and what was found of it.
type size struct {
	records int
	webhook *bed.Program
	names   []string          // some of the Nodes that it has records of
	bodies  map[string][]byte // of the calls for them
	handler cell              // calls straight to the handler
}

// growth measures with a hundredth, a tenth and all of the records, which nobody has Nodes for.
func (b *bench) growth(ctx context.Context) error {
	if _, err := b.grow(ctx); err != nil {
		return err
	}
	b.printMemory()
	b.printStarts()
	return nil
}

// grow writes the records of the population. It then measures in turn three webhooks, each with its own number of records. It returns how the records
// were written; nothing else ran at that time.
func (b *bench) grow(ctx context.Context) (bare cell, err error) {
	names := slices.Concat(bed.Names("grow", growthCount), bed.Names("node", b.nodes-growthCount))
	if bare, err = b.bareLoop(ctx, names); err != nil {
		return bare, err
	}
	var sizes []*size
	for _, records := range slices.Compact([]int{max(b.nodes/100, smallest), max(b.nodes/10, smallest), b.nodes}) {
		s, err := b.sized(ctx, names[:records], records == b.nodes)
		if err != nil {
			return bare, err
		}
		sizes = append(sizes, s)
	}
	creates, err := b.inTurn(ctx, sizes)
	if err != nil {
		return bare, err
	}
	for _, s := range sizes {
		if err := b.remember(s.webhook, fmt.Sprintf("has answered some %d calls", growthRounds*(growthCalls+growthCount))); err != nil {
			return bare, err
		}
	}
	if err := b.Use(ctx, bed.Variant{}); err != nil {
		return bare, err
	}
	for _, s := range sizes {
		if err := s.webhook.Stop(); err != nil {
			return bare, err
		}
	}
	b.printGrowth(sizes, creates)
	return bare, nil
}

// sized starts a webhook with the records of these Nodes. With all, these are all that exist; otherwise they get a namespace of their own.
func (b *bench) sized(ctx context.Context, nodes []string, all bool) (s *size, err error) {
	s = &size{records: len(nodes), bodies: map[string][]byte{}}
	if all {
		s.webhook, err = b.StartWebhook(ctx)
	} else {
		namespace := fmt.Sprintf("bench-%d", len(nodes))
		if err := b.AddRecordsIn(ctx, namespace, nodes); err != nil {
			return nil, err
		}
		s.webhook, err = b.StartWebhookIn(ctx, namespace)
	}
	if err != nil {
		return nil, err
	}
	b.started("webhook", fmt.Sprintf("%d records", len(nodes)), s.webhook)
	if err := b.remember(s.webhook, fmt.Sprintf("has read %d records", len(nodes))); err != nil {
		return nil, err
	}
	if all {
		if err := b.rest(ctx, s.webhook, "half a minute later"); err != nil {
			return nil, err
		}
	}
	for n := range growthCalls {
		name := nodes[n*len(nodes)/growthCalls]
		if s.bodies[name], err = b.Review(name); err != nil {
			return nil, err
		}
		s.names = append(s.names, name)
	}
	return s, nil
}

// inTurn measures the sizes and a constant patch in turn; the first round does not count.
func (b *bench) inTurn(ctx context.Context, sizes []*size) (creates cells, err error) {
	creates = cells{}
	for round := range growthRounds + 1 {
		b.phase("growth, round %d of %d", round, growthRounds)
		variants := []bed.Variant{{Name: constant, Answerer: bed.Labels}}
		for _, s := range sizes {
			calls, err := b.call(ctx, s)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				s.handler = s.handler.and(calls)
			}
			variants = append(variants, bed.Variant{Name: s.name(), Answerer: bed.Nodekeep, Recorded: true, At: s.webhook})
		}
		for n := range variants {
			variant := variants[(n+round)%len(variants)]
			if err := b.Use(ctx, variant); err != nil {
				return nil, err
			}
			load, err := b.registrations(ctx, variant, bed.Names("grow", growthCount), 1)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				creates.add(variant.Name, 1, load)
			}
		}
	}
	return creates, nil
}

// constant names the webhook that always answers with the same patch.
const constant = "constant patch"

func (s *size) name() string { return fmt.Sprintf("%d records", s.records) }

// call calls the handler for Nodes from all over the records, one at a time.
func (b *bench) call(ctx context.Context, s *size) (calls cell, err error) {
	caller := s.webhook.Caller()
	if err := caller.Call(ctx, s.bodies[s.names[0]]); err != nil { // makes the connection
		return calls, err
	}
	cpu := func() (time.Duration, error) {
		usage, err := s.webhook.Usage()
		return usage.CPU, err
	}
	return timed(cpu, func() (measure.Load, error) {
		return measure.Run(ctx, s.names, 1, func(ctx context.Context, name string) error { return caller.Call(ctx, s.bodies[name]) })
	})
}

func (b *bench) printGrowth(sizes []*size, creates cells) {
	title := fmt.Sprintf("Growth: %d rounds of %d calls straight to the handler and of %d CREATEs at each size, one at a time", growthRounds, growthCalls, growthCount)
	table := measure.NewTable(b.out, title, "records", "handler p50", "p99", "CPU a call", "CPU / smallest", "CREATE p50", "p99", "p50 / same patch", "p50 / smallest")
	first := sizes[0]
	for _, s := range sizes {
		create := creates.all(s.name(), 1).Times
		table.Row(s.records, measure.Milliseconds(s.handler.Times.Quantile(0.5)), measure.Milliseconds(s.handler.Times.Quantile(0.99)),
			measure.Milliseconds(s.handler.each()), measure.Ratio(float64(s.handler.each()), float64(first.handler.each())),
			measure.Milliseconds(create.Quantile(0.5)), measure.Milliseconds(create.Quantile(0.99)),
			measure.Ratio(creates.ratio(s.name(), constant, 1), 1), measure.Ratio(creates.ratio(s.name(), first.name(), 1), 1))
	}
	table.Flush()
}
