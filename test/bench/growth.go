package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

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

// size is a webhook with so many records.
type size struct {
	records int
	webhook *bed.Program
	names   []string          // some of the Nodes that it has records of
	bodies  map[string][]byte // of the calls for them
}

// growth measures with a hundredth, a tenth and all of the records, which nobody has Nodes for.
func (b *bench) growth(ctx context.Context) {
	b.grow(ctx)
	b.memory.Flush()
	b.starts.Flush()
}

// grow writes the records of the population. It then measures in turn three webhooks, each with its own number of records. It returns how the records
// were written; nothing else ran at that time.
func (b *bench) grow(ctx context.Context) (bare cell) {
	names := slices.Concat(bed.Names("grow", growthCount), bed.Names("node", b.nodes-growthCount))
	bare = b.bareLoop(ctx, names)
	var sizes []*size
	for _, records := range slices.Compact([]int{max(b.nodes/100, smallest), max(b.nodes/10, smallest), b.nodes}) {
		sizes = append(sizes, b.sized(ctx, names[:records], records == b.nodes))
	}
	handler, creates := cells{}, cells{}
	b.inTurn(growthRounds, len(sizes)+1, func(round, n int) {
		variant := bed.Variant{Name: constant, Answerer: bed.Labels}
		if n > 0 {
			s := sizes[n-1]
			handler.add(round, s.name(), 1, b.call(ctx, s))
			variant = bed.Variant{Name: s.name(), Answerer: bed.Nodekeep, Recorded: true, Program: s.webhook}
		}
		b.Use(ctx, variant)
		creates.add(round, variant.Name, 1, b.registrations(ctx, variant, bed.Names("grow", growthCount), 1))
	})
	for _, s := range sizes {
		b.remember(s.webhook, fmt.Sprintf("has answered some %d calls", growthRounds*(growthCalls+growthCount)))
	}
	b.Use(ctx, bed.Variant{})
	for _, s := range sizes {
		s.webhook.Stop()
	}
	b.printGrowth(sizes, handler, creates)
	return bare
}

// sized starts a webhook with the records of these Nodes. With all, these are all that exist; otherwise they get a namespace of their own.
func (b *bench) sized(ctx context.Context, nodes []string, all bool) *size {
	s := &size{records: len(nodes), bodies: map[string][]byte{}}
	if all {
		s.webhook = b.StartWebhook(ctx)
	} else {
		namespace := fmt.Sprintf("bench-%d", len(nodes))
		b.AddRecordsIn(ctx, namespace, nodes)
		s.webhook = b.StartWebhookIn(ctx, namespace)
	}
	b.started("webhook", s.name(), s.webhook)
	b.remember(s.webhook, "has read "+s.name())
	if all {
		b.rest(ctx, s.webhook, "half a minute later")
	}
	for n := range growthCalls {
		name := nodes[n*len(nodes)/growthCalls]
		s.bodies[name] = b.Review(name)
		s.names = append(s.names, name)
	}
	return s
}

// constant names the webhook that always answers with the same patch.
const constant = "constant patch"

func (s *size) name() string { return fmt.Sprintf("%d records", s.records) }

// call calls the handler for Nodes from all over the records, one at a time.
func (b *bench) call(ctx context.Context, s *size) cell {
	require.NoError(b, s.webhook.Call(ctx, s.bodies[s.names[0]])) // makes the connection
	return timed(s.webhook.CPU, func() measure.Load {
		return b.Load(ctx, s.names, 1, func(ctx context.Context, name string) error { return s.webhook.Call(ctx, s.bodies[name]) })
	})
}

func (b *bench) printGrowth(sizes []*size, handler, creates cells) {
	title := fmt.Sprintf("Growth: %d rounds of %d calls straight to the handler and of %d CREATEs at each size, one at a time", growthRounds, growthCalls, growthCount)
	table := b.table(title, "records", "handler p50", "p99", "CPU a call", "CPU / smallest", "CREATE p50", "p99", "p50 / same patch", "p50 / smallest")
	first := sizes[0].name()
	for _, s := range sizes {
		calls := handler.all(s.name(), 1)
		table.Row(s.records, calls.Times.Milliseconds(0.5, 0.99),
			measure.Milliseconds(calls.perNode()), measure.Ratio(float64(calls.perNode()), float64(handler.all(first, 1).perNode())),
			creates.all(s.name(), 1).Times.Milliseconds(0.5, 0.99),
			measure.Ratio(creates.ratio(s.name(), constant, 1), 1), measure.Ratio(creates.ratio(s.name(), first, 1), 1))
	}
	table.Flush()
}
