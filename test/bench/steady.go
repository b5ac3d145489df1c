package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// change is the change of a label on a Node. Its times are the request, the API server's answer, and the arrival of the record on a watch.
type change struct {
	asked, answered, stored time.Time
}

// steady changes labels at an even rate and measures how long each takes to be in the stored record.
func (b *bench) steady(ctx context.Context, pair both, nodes []string) error {
	b.phase("%d label changes a second for %s", b.changes, b.period)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make([]change, b.changes*int(b.period/time.Second))
	var mu sync.Mutex
	missing := len(changes)
	all := make(chan struct{})
	ended, err := b.WatchRecords(ctx, func(record record.Record) {
		now := time.Now()
		number, err := strconv.Atoi(record.Items()[changedLabel])
		if err != nil || number >= len(changes) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		// Where capture is behind, a record shows the last change of its Node and with it of those before.
		for ; number >= 0 && changes[number].stored.IsZero(); number -= len(nodes) {
			changes[number].stored = now
			if missing--; missing == 0 {
				close(all)
			}
		}
	})
	if err != nil {
		return err
	}
	before, err := b.taken(pair.capture)
	if err != nil {
		return err
	}
	took, err := b.makeChanges(ctx, nodes, changes, &mu, "")
	if err != nil {
		return err
	}
	select {
	case <-all:
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		mu.Lock()
		defer mu.Unlock()
		return fmt.Errorf("wait for records: %d of %d changes are in none", missing, len(changes))
	}
	after, err := b.taken(pair.capture)
	if err != nil {
		return err
	}
	b.printChanges("Steady state", changes, took, after.since(before))
	return b.rememberBoth(pair, "after label changes")
}

// uncaptured makes the same changes with neither process there: what the control plane and the clients cost by themselves.
func (b *bench) uncaptured(ctx context.Context, nodes []string) error {
	b.phase("%d label changes a second for %s, and nobody captures them", b.changes, b.period)
	changes := make([]change, b.changes*int(b.period/time.Second))
	before, err := b.taken(nil)
	if err != nil {
		return err
	}
	took, err := b.makeChanges(ctx, nodes, changes, &sync.Mutex{}, "uncaptured-")
	if err != nil {
		return err
	}
	after, err := b.taken(nil)
	if err != nil {
		return err
	}
	b.printChanges("Label changes that nobody captures", changes, took, after.since(before))
	return nil
}

// makeChanges labels one Node after the other, at the rate of the settings. Each label value is the prefix and the number of the change.
func (b *bench) makeChanges(ctx context.Context, nodes []string, changes []change, mu *sync.Mutex, prefix string) (time.Duration, error) {
	return b.pace(ctx, len(changes), b.changes, func(ctx context.Context, number int) error {
		asked := time.Now()
		err := b.Label(ctx, nodes[number%len(nodes)], changedLabel, prefix+strconv.Itoa(number))
		mu.Lock()
		defer mu.Unlock()
		changes[number].asked, changes[number].answered = asked, time.Now()
		return err
	})
}

func (b *bench) printChanges(title string, changes []change, took time.Duration, cpu taken) {
	share := func(used time.Duration) string { return fmt.Sprintf("%.0f %%", 100*used.Seconds()/took.Seconds()) }
	head := fmt.Sprintf("%s: %d in %s, %.0f a second; of one CPU the control plane used %s, these clients %s",
		title, len(changes), measure.Seconds(took), measure.Rate(len(changes), took), share(cpu.controlPlane), share(cpu.clients))
	if cpu.capture > 0 {
		head += ", capture " + share(cpu.capture)
	}
	table := measure.NewTable(b.out, head, "time", "p50", "p90", "p99", "longest")
	row := func(what string, from, to func(change) time.Time) {
		var times measure.Times
		for _, c := range changes {
			if to(c).IsZero() {
				return
			}
			times = append(times, max(0, to(c).Sub(from(c))))
		}
		table.Row(what, measure.Milliseconds(times.Quantile(0.5)), measure.Milliseconds(times.Quantile(0.9)),
			measure.Milliseconds(times.Quantile(0.99)), measure.Milliseconds(times.Quantile(1)))
	}
	asked := func(c change) time.Time { return c.asked }
	answered := func(c change) time.Time { return c.answered }
	stored := func(c change) time.Time { return c.stored }
	row("the PATCH of the Node", asked, answered)
	row("from its being sent until a watch brings the record", asked, stored)
	row("from its answer until a watch brings the record", answered, stored)
	table.Flush()
}

// pace calls do count times, at perSecond calls a second. It does not wait for one call before the next. When all are over, it returns the first
// error.
func (b *bench) pace(ctx context.Context, count, perSecond int, do func(ctx context.Context, number int) error) (time.Duration, error) {
	const mostAtOnce = 1000 // where the API server cannot keep up, the rate sinks and the title shows it
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns := make(chan struct{}, mostAtOnce)
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	var running sync.WaitGroup
	began := time.Now()
	for number := range count {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			running.Wait()
			return 0, context.Cause(ctx)
		}
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			if err := do(ctx, number); err != nil && !errors.Is(err, context.Canceled) {
				cancel(err)
			}
		})
	}
	running.Wait()
	return time.Since(began), context.Cause(ctx)
}
