package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// compareLarge compares builds that have many Nodes and records.
func (b *bench) compareLarge(ctx context.Context, sides []*side) error {
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
	if slices.Contains(b.parts, "memory") {
		if err := b.compareMemory(ctx, sides, &memory); err != nil {
			return err
		}
	}
	if slices.Contains(b.parts, "reviews") {
		return b.compareReviews(ctx, sides, nodes)
	}
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

// A review is of one of these kinds.
const (
	registrations    = "a Node registers, 10 labels"
	recordedDeletion = "a Node is deleted, nothing new"
	editedDeletion   = "a Node is deleted, with a label that is not in its record"
)

// compareReviews calls the webhooks themselves, in turn. capture does not run, so no record changes by itself.
func (b *bench) compareReviews(ctx context.Context, sides []*side, nodes []string) error {
	kinds := []string{registrations, recordedDeletion, editedDeletion}
	calls := min(b.count, len(nodes)/len(kinds)/(b.rounds+1))
	if calls == 0 {
		return fmt.Errorf("compare reviews: %d Nodes are too few for %d rounds", len(nodes), b.rounds)
	}
	if err := inTurns(sides, 0, func(s *side) error { return s.up(ctx) }); err != nil {
		return err
	}
	found := map[string]cells{}
	for round := range b.rounds + 1 { // the first one does not count
		b.phase("reviews, round %d of %d", round, b.rounds)
		for _, kind := range kinds {
			some := nodes[:calls] // of each Node one review
			nodes = nodes[calls:]
			if found[kind] == nil {
				found[kind] = cells{}
			}
			err := inTurns(sides, round, func(s *side) error {
				reviewed, err := s.review(ctx, kind, some, round)
				if err == nil && round > 0 {
					found[kind].add(s.name, 1, reviewed)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	title := fmt.Sprintf("Reviews, straight to the webhook, one at a time: %d Nodes and records, %d rounds of %d", b.nodes, b.rounds, calls)
	first := sides[0].name
	table := measure.NewTable(b.out, title, "review", "build", "p50", "p99", "CPU a call", "p50 / "+first, "p99 / "+first, "CPU / "+first)
	for _, kind := range kinds {
		before := found[kind].all(first, 1)
		for _, s := range sides {
			all := found[kind].all(s.name, 1)
			table.Row(kind, s.name, measure.Milliseconds(all.Times.Quantile(0.5)), measure.Milliseconds(all.Times.Quantile(0.99)), measure.Milliseconds(all.each()),
				measure.Ratio(found[kind].ratio(s.name, first, 1), 1), measure.Ratio(float64(all.Times.Quantile(0.99)), float64(before.Times.Quantile(0.99))),
				measure.Ratio(float64(all.each()), float64(before.each())))
		}
	}
	table.Flush()
	return inTurns(sides, 0, (*side).down)
}

// review sends one review for each Node.
func (s *side) review(ctx context.Context, kind string, nodes []string, round int) (reviewed cell, err error) {
	caller := s.webhook.Caller()
	call, value := caller.CallForDeletion, "edited-"+strconv.Itoa(round)
	if kind == registrations {
		call = caller.Call
	}
	bodies := map[string][]byte{}
	for _, node := range nodes {
		if kind == editedDeletion {
			if err := s.Label(ctx, node, changedLabel, value); err != nil {
				return reviewed, err
			}
		}
		if kind == registrations {
			bodies[node], err = s.Review(node)
		} else {
			bodies[node], err = s.DeletionReview(ctx, node)
		}
		if err != nil {
			return reviewed, err
		}
	}
	warm, err := s.Review(nodes[0])
	if err != nil {
		return reviewed, err
	}
	if err := caller.Call(ctx, warm); err != nil { // makes the connection
		return reviewed, err
	}
	before, err := s.webhook.Usage()
	if err != nil {
		return reviewed, err
	}
	reviewed.Load, err = measure.Run(ctx, nodes, 1, func(ctx context.Context, node string) error { return call(ctx, bodies[node]) })
	if err != nil {
		return reviewed, err
	}
	after, err := s.webhook.Usage()
	if err != nil {
		return reviewed, err
	}
	reviewed.cpu = after.CPU - before.CPU
	if kind == editedDeletion {
		err = s.each(ctx, nodes, recorded(value))
	}
	return reviewed, err
}
