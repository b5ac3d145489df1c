package main

import (
	"context"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// heap is what was measured of a process.
type heap struct {
	resident, peak int64 // bytes
	live           int64 // bytes that are left of the heap after a garbage collection
	ready          time.Duration
}

// moment is when the memory of a process is measured.
type moment struct{ process, name string }

// heaps are the measurements of each build at each moment, and the moments in their order.
type heaps struct {
	moments []moment
	found   map[moment]map[*side][]heap
}

// add measures a process.
func (h *heaps) add(ctx context.Context, s *side, p *bed.Program, name string) {
	key := moment{p.Name(), name}
	if h.found[key] == nil {
		h.moments = append(h.moments, key)
		h.found[key] = map[*side][]heap{}
	}
	usage := p.Usage()
	h.found[key][s] = append(h.found[key][s], heap{usage.Resident, usage.Peak, p.Heap(ctx), p.Ready})
}

// median returns that of a figure of a build at a moment.
func (h *heaps) median(key moment, s *side, fn func(heap) int64) float64 {
	var all []float64
	for _, heap := range h.found[key][s] {
		all = append(all, float64(fn(heap)))
	}
	return measure.Median(all)
}

// compareMemory makes many Nodes and has each build capture them. It then starts the build's processes repeatedly, and measures their memory.
func (b *bench) compareMemory(ctx context.Context, sides []*side) {
	nodes := bed.Names("node", b.nodes)
	memory := &heaps{found: map[moment]map[*side][]heap{}}
	inTurns(sides, 0, func(s *side) {
		b.phase("make %d Nodes of %d images for %s", len(nodes), b.images, s.name)
		s.Use(ctx, bed.Variant{})
		s.Images = b.images
		b.done("Nodes", s.AddNodes(ctx, nodes))
		b.captureAll(ctx, s, nodes, memory)
	})
	for turn := range b.repeat {
		inTurns(sides, turn, func(s *side) {
			b.phase("memory %d of %d of %s", turn+1, b.repeat, s.name)
			s.webhook, s.capture = s.StartWebhook(ctx), s.StartCapture(ctx, "")
			b.sleep(ctx, min(30*time.Second, b.period))
			for _, process := range []*bed.Program{s.webhook, s.capture} {
				memory.add(ctx, s, process, "started with all records")
			}
			s.stop()
		})
	}
	first := sides[0].name
	table := b.table(fmt.Sprintf("Memory: %d Nodes and records of 10 labels; medians of %d starts, one first capture", b.nodes, b.repeat),
		"process", "moment", "build", "resident", "peak", "heap after a garbage collection", "resident / "+first, "peak / "+first, "heap / "+first, "ready after")
	figures := []func(heap) int64{
		func(h heap) int64 { return h.resident }, func(h heap) int64 { return h.peak }, func(h heap) int64 { return h.live },
	}
	for _, moment := range memory.moments {
		for _, s := range sides {
			var sizes, ratios []any
			for _, fn := range figures {
				median := memory.median(moment, s, fn)
				sizes = append(sizes, fmt.Sprintf("%.1f MiB", median/(1<<20)))
				ratios = append(ratios, measure.Ratio(median, memory.median(moment, sides[0], fn)))
			}
			ready := memory.median(moment, s, func(h heap) int64 { return int64(h.ready) })
			table.Row(moment.process, moment.name, s.name, sizes, ratios, measure.Seconds(time.Duration(ready)))
		}
	}
	table.Flush()
}

// captureAll has capture write the record of each Node, in the format of its build.
func (b *bench) captureAll(ctx context.Context, s *side, nodes []string, memory *heaps) {
	used := s.CountRecords(ctx)
	s.start(ctx) // from here on the shipped policies are in force
	s.capture = s.StartCapture(ctx, "")
	began := time.Now()
	s.Wait(ctx, patience, 100*time.Millisecond, "every Node has a record", func(ctx context.Context) (bool, error) {
		return s.CountRecords(ctx) >= used+len(nodes), nil
	})
	b.phase("%s has written %d records in %s", s.name, len(nodes), measure.Seconds(time.Since(began)))
	s.forEach(ctx, nodes, recorded(lastKeptValue))
	memory.add(ctx, s, s.capture, "first capture is done")
	s.stop()
}
