package main

import (
	"context"
	"fmt"
	"strings"
	"time"

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

// writes are the requests that change records and Nodes.
func (w written) writes() int {
	return w.counts[bed.RecordCreated] + w.counts[bed.RecordChanged] + w.counts[bed.RecordDeleted] + w.counts[bed.NodeChanged]
}

// compareWrites counts the API writes of each build at each event.
func (b *bench) compareWrites(ctx context.Context, sides []*side) error {
	table := measure.NewTable(b.out, fmt.Sprintf("API writes of nodekeep for each event of a Node: %d Nodes each", b.count), "event", "build",
		"record created", "record changed", "record deleted", "Node changed", "writes", "writes / "+sides[0].name, "Events", "other", "webhook calls that failed open")
	err := inTurns(sides, 0, func(s *side) (err error) {
		s.counter, err = s.CountWrites()
		return err
	})
	if err != nil {
		return err
	}
	for turn, e := range events() {
		nodes := bed.Names("kept", b.count)
		if e.fresh {
			nodes = bed.Names("new", b.count)
		}
		b.phase("%s: %d Nodes", e.name, len(nodes))
		found := map[*side]written{}
		err := inTurns(sides, turn, func(s *side) (err error) {
			found[s], err = s.happens(ctx, e, nodes)
			return err
		})
		if err != nil {
			table.Flush()
			return fmt.Errorf("%s: %w", e.name, err)
		}
		for _, s := range sides {
			table.Row(found[s].cells(e, s, found[sides[0]].writes(), len(nodes))...)
		}
	}
	table.Flush()
	return inTurns(sides, 0, func(s *side) error {
		s.counter, s.Route = nil, nil // without the proxy again
		return s.down()
	})
}

// happens lets an event happen to Nodes and counts what is written until nodekeep is quiet again.
func (s *side) happens(ctx context.Context, e event, nodes []string) (w written, err error) {
	if e.before != nil {
		if err := e.before(ctx, s, nodes); err != nil {
			return w, err
		}
		if err := s.quiet(ctx); err != nil {
			return w, err
		}
	}
	s.counter.Take()
	before, err := s.CallsFailedOpen(ctx)
	if err != nil {
		return w, err
	}
	if e.once != nil {
		if err := e.once(ctx, s); err != nil {
			return w, err
		}
	}
	if e.each != nil {
		if _, err := measure.Run(ctx, nodes, eventsAtOnce, func(ctx context.Context, node string) error { return e.each(ctx, s, node) }); err != nil {
			return w, err
		}
	}
	if e.done != nil {
		if err := s.each(ctx, nodes, e.done); err != nil {
			return w, err
		}
	}
	if err := s.quiet(ctx); err != nil {
		return w, err
	}
	after, err := s.CallsFailedOpen(ctx)
	return written{s.counter.Take(), after - before}, err
}

// each waits until something holds for each of some Nodes.
func (s *side) each(ctx context.Context, nodes []string, holds func(context.Context, *side, string) (bool, error)) error {
	for _, node := range nodes {
		err := bed.Await(ctx, time.Minute, bed.Look, func(ctx context.Context) (bool, error) { return holds(ctx, s, node) })
		if err != nil {
			record, _ := s.RecordText(ctx, node)
			return fmt.Errorf("wait for node %q, whose record is %s: %w", node, record, err)
		}
	}
	return nil
}

// quiet waits until nodekeep has written nothing for a while.
func (s *side) quiet(ctx context.Context) error {
	total, since := s.counter.Total(), time.Now()
	err := bed.Await(ctx, patience, 100*time.Millisecond, func(context.Context) (bool, error) {
		if now := s.counter.Total(); now != total {
			total, since = now, time.Now()
		}
		return time.Since(since) >= quiet, nil
	})
	if err != nil {
		return fmt.Errorf("wait until nodekeep writes nothing: %w", err)
	}
	return nil
}

// cells are the row of a build. Writes are given for each Node, and compared with those of the first build.
func (w written) cells(e event, s *side, first, nodes int) []any {
	each := func(count int) string {
		return strings.TrimSuffix(fmt.Sprintf("%.2f", float64(count)/float64(nodes)), ".00")
	}
	row := []any{e.name, s.name}
	for _, kind := range []bed.Kind{bed.RecordCreated, bed.RecordChanged, bed.RecordDeleted, bed.NodeChanged} {
		row = append(row, each(w.counts[kind]))
	}
	return append(row, each(w.writes()), measure.Ratio(float64(w.writes()), float64(first)),
		each(w.counts[bed.EventWritten]), each(w.counts[bed.OtherWrite]), w.failedOpen)
}
