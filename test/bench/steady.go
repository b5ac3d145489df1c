package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// change is a label of a Node that was changed: when that was asked for, when the API server had done it, and when a watch
// brought the record.
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
	ended, err := b.WatchRecords(ctx, func(record store.Record) {
		now := time.Now()
		number, err := strconv.Atoi(record.Items[changedLabel])
		if err != nil || number >= len(changes) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		// Where capture is behind, a record tells of the last change of its Node and with it of those before.
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
	before, err := pair.capture.Usage()
	if err != nil {
		return err
	}
	took, err := b.pace(ctx, len(changes), b.changes, func(ctx context.Context, number int) error {
		asked := time.Now()
		err := b.Label(ctx, nodes[number%len(nodes)], changedLabel, strconv.Itoa(number))
		mu.Lock()
		defer mu.Unlock()
		changes[number].asked, changes[number].answered = asked, time.Now()
		return err
	})
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
	after, err := pair.capture.Usage()
	if err != nil {
		return err
	}
	b.printSteady(changes, took, after.CPU-before.CPU)
	return b.rememberBoth(pair, "after label changes")
}

func (b *bench) printSteady(changes []change, took, cpu time.Duration) {
	var asked, answered measure.Times
	for _, c := range changes {
		asked = append(asked, c.stored.Sub(c.asked))
		answered = append(answered, max(0, c.stored.Sub(c.answered)))
	}
	title := fmt.Sprintf("Steady state: %d label changes in %s, %.0f a second; capture used %.0f %% of one CPU",
		len(changes), measure.Seconds(took), float64(len(changes))/took.Seconds(), 100*cpu.Seconds()/took.Seconds())
	table := measure.NewTable(b.out, title, "until a watch brings the record", "p50", "p90", "p99", "longest")
	for _, row := range []struct {
		from  string
		times measure.Times
	}{{"from the PATCH of the Node being sent", asked}, {"from its answer", answered}} {
		table.Row(row.from, measure.Milliseconds(row.times.Quantile(0.5)), measure.Milliseconds(row.times.Quantile(0.9)),
			measure.Milliseconds(row.times.Quantile(0.99)), measure.Milliseconds(row.times.Quantile(1)))
	}
	table.Flush()
}

// pace calls do so many times, at so many a second, without waiting for one to be over before the next. It returns
// when all are over, with the first error.
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
