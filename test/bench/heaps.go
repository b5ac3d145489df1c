package main

import (
	"context"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// heap is the memory of a process of a build at a moment.
type heap struct {
	process, moment, build string
	resident, peak         int64 // bytes
	live                   int64 // bytes that are left of the heap after a garbage collection
	ready                  time.Duration
}

type heaps []heap

// add measures a process.
func (h *heaps) add(ctx context.Context, s *side, p *bed.Program, moment string) error {
	usage, err := p.Usage()
	if err != nil {
		return err
	}
	live, err := p.Heap(ctx)
	*h = append(*h, heap{p.Name(), moment, s.name, usage.Resident, usage.Peak, live, p.Ready})
	return err
}

// compareMemory makes many Nodes and has each build capture them. It then starts the build's processes repeatedly, and measures their memory.
func (b *bench) compareMemory(ctx context.Context, sides []*side) error {
	nodes := bed.Names("node", b.nodes)
	var memory heaps
	err := inTurns(sides, 0, func(s *side) error {
		b.phase("make %d Nodes of %d images for %s", len(nodes), b.images, s.name)
		if err := s.Use(ctx, bed.Variant{}); err != nil {
			return err
		}
		s.Images = b.images
		load, err := s.AddNodes(ctx, nodes)
		if err != nil {
			return err
		}
		b.done("Nodes", load)
		return b.captureAll(ctx, s, nodes, &memory)
	})
	if err != nil {
		return err
	}
	for turn := range b.repeat {
		err := inTurns(sides, turn, func(s *side) (err error) {
			b.phase("memory %d of %d of %s", turn+1, b.repeat, s.name)
			if s.webhook, err = s.StartWebhook(ctx); err != nil {
				return err
			}
			if s.capture, err = s.StartCapture(ctx, ""); err != nil {
				return err
			}
			if err := sleep(ctx, min(30*time.Second, b.period)); err != nil {
				return err
			}
			for _, process := range []*bed.Program{s.webhook, s.capture} {
				if err := memory.add(ctx, s, process, "started with all records"); err != nil {
					return err
				}
			}
			return s.down()
		})
		if err != nil {
			return err
		}
	}
	first := sides[0].name
	table := measure.NewTable(b.out, fmt.Sprintf("Memory: %d Nodes and records of 10 labels; medians of %d starts, one first capture", b.nodes, b.repeat),
		"process", "moment", "build", "resident", "peak", "heap after a garbage collection", "resident / "+first, "peak / "+first, "heap / "+first, "ready after")
	printed := map[string]bool{}
	for _, row := range memory {
		if printed[row.process+row.moment] {
			continue
		}
		printed[row.process+row.moment] = true
		median := func(s *side, of func(heap) int64) float64 {
			var all []float64
			for _, other := range memory {
				if other.process == row.process && other.moment == row.moment && other.build == s.name {
					all = append(all, float64(of(other)))
				}
			}
			return measure.Median(all)
		}
		for _, s := range sides {
			cells, ratios := []any{row.process, row.moment, s.name}, []any{}
			for _, of := range []func(heap) int64{func(h heap) int64 { return h.resident }, func(h heap) int64 { return h.peak }, func(h heap) int64 { return h.live }} {
				cells = append(cells, fmt.Sprintf("%.1f MiB", median(s, of)/(1<<20)))
				ratios = append(ratios, measure.Ratio(median(s, of), median(sides[0], of)))
			}
			ready := time.Duration(median(s, func(h heap) int64 { return int64(h.ready) }))
			table.Row(append(append(cells, ratios...), measure.Seconds(ready))...)
		}
	}
	table.Flush()
	return nil
}

// captureAll has capture write the record of each Node, in the format of its build.
func (b *bench) captureAll(ctx context.Context, s *side, nodes []string, memory *heaps) (err error) {
	others, err := s.CountRecords(ctx)
	if err != nil {
		return err
	}
	if err := s.up(ctx); err != nil { // from here on the shipped policies are in force
		return err
	}
	if s.capture, err = s.StartCapture(ctx, ""); err != nil {
		return err
	}
	began := time.Now()
	err = bed.Await(ctx, patience, 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		count, err := s.CountRecords(ctx)
		return count >= others+len(nodes), err
	})
	if err != nil {
		return fmt.Errorf("wait for first capture: %w", err)
	}
	b.phase("%s has written %d records in %s", s.name, len(nodes), measure.Seconds(time.Since(began)))
	if err := s.each(ctx, nodes, recorded(lastKeptValue)); err != nil {
		return err
	}
	if err := memory.add(ctx, s, s.capture, "first capture is done"); err != nil {
		return err
	}
	return s.down()
}
