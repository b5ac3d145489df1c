package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

const (
	// quiet is how long nodekeep must write nothing before an event counts as over. Retries and standbys are faster.
	quiet = 5 * time.Second
	// eventsAtOnce is how many Nodes an event happens to at once.
	eventsAtOnce = 4
)

// written is what a build wrote at an event.
type written struct {
	counts     map[bed.Kind]int
	failedOpen int // calls of webhooks
}

// writes returns the requests that change records and Nodes.
func (w written) writes() int {
	return w.counts[bed.RecordCreated] + w.counts[bed.RecordChanged] + w.counts[bed.RecordDeleted] + w.counts[bed.NodeChanged]
}

// compareWrites counts the API writes of each build at each event.
func (b *bench) compareWrites(ctx context.Context, sides []*side) {
	table := b.table(fmt.Sprintf("API writes of nodekeep for each event of a Node: %d Nodes each", b.count), "event", "build",
		"record created", "record changed", "record deleted", "Node changed", "writes", "writes / "+sides[0].name, "Events", "other", "webhook calls that failed open")
	defer table.Flush()
	inTurns(sides, 0, func(s *side) { s.counter = s.CountWrites() })
	for turn, e := range events() {
		nodes := bed.Names("kept", b.count)
		if e.fresh {
			nodes = bed.Names("new", b.count)
		}
		b.phase("%s: %d Nodes", e.name, len(nodes))
		found := map[*side]written{}
		inTurns(sides, turn, func(s *side) { found[s] = s.happens(ctx, e, nodes) })
		for _, s := range sides {
			table.Row(e.name, s.name, found[s].cells(found[sides[0]].writes(), len(nodes)))
		}
	}
	inTurns(sides, 0, func(s *side) {
		s.counter, s.Route = nil, nil // without the proxy again
		s.stop()
	})
}

// happens lets an event happen to Nodes and counts what is written until nodekeep is quiet again.
func (s *side) happens(ctx context.Context, e event, nodes []string) written {
	if e.prepare != nil {
		e.prepare(ctx, s, nodes)
		s.quiet(ctx)
	}
	s.counter.Take()
	failed := s.CallsFailedOpen(ctx)
	if e.perRun != nil {
		e.perRun(ctx, s)
	}
	if e.perNode != nil {
		s.Load(ctx, nodes, eventsAtOnce, func(ctx context.Context, node string) error { return e.perNode(ctx, s, node) })
	}
	if e.done != nil {
		s.forEach(ctx, nodes, e.done)
	}
	s.quiet(ctx)
	return written{s.counter.Take(), s.CallsFailedOpen(ctx) - failed}
}

// forEach waits until something holds for each of some Nodes.
func (s *side) forEach(ctx context.Context, nodes []string, holds condition) {
	for _, node := range nodes {
		err := wait.PollUntilContextTimeout(ctx, bed.Look, time.Minute, true, func(ctx context.Context) (bool, error) { return holds(ctx, s, node), nil })
		if err != nil {
			require.NoError(s, err, "wait for node %q, whose record is %s", node, s.RecordText(ctx, node))
		}
	}
}

// quiet waits until nodekeep has written nothing for a while.
func (s *side) quiet(ctx context.Context) {
	total, start := s.counter.Total(), time.Now()
	s.Wait(ctx, patience, 100*time.Millisecond, "nodekeep writes nothing", func(context.Context) (bool, error) {
		if now := s.counter.Total(); now != total {
			total, start = now, time.Now()
		}
		return time.Since(start) >= quiet, nil
	})
}

// cells returns the figures of a build. Writes are given for each Node, and compared with those of the first build.
func (w written) cells(first, nodes int) (row []any) {
	perNode := func(count int) string {
		return strings.TrimSuffix(fmt.Sprintf("%.2f", float64(count)/float64(nodes)), ".00")
	}
	for _, kind := range []bed.Kind{bed.RecordCreated, bed.RecordChanged, bed.RecordDeleted, bed.NodeChanged} {
		row = append(row, perNode(w.counts[kind]))
	}
	return append(row, perNode(w.writes()), measure.Ratio(float64(w.writes()), float64(first)),
		perNode(w.counts[bed.EventWritten]), perNode(w.counts[bed.OtherWrite]), w.failedOpen)
}
