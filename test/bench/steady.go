package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// change is the change of a label on a Node. Its times are the request, the API server's answer, and the arrival of the record on a watch.
type change struct {
	asked, answered, stored time.Time
}

// steady changes labels at an even rate and measures how long each takes to be in the stored record.
func (b *bench) steady(ctx context.Context, pair comparison, nodes []string) {
	b.phase("%d label changes a second for %s", b.changes, b.period)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make([]change, b.changes*int(b.period/time.Second))
	var mu sync.Mutex
	missing := len(changes)
	all := make(chan struct{})
	ended := b.WatchRecords(ctx, func(record record.Record) {
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
	var took time.Duration
	_, cpu := spent(func() {
		took = b.makeChanges(ctx, nodes, changes, &mu, "")
		select {
		case <-all:
		case err := <-ended:
			require.NoError(b, err)
		case <-time.After(time.Minute):
			mu.Lock()
			defer mu.Unlock()
			require.Zero(b, missing, "changes of %d that are in no record", len(changes))
		}
	}, b.ControlPlaneCPU, b.ownCPU, pair.capture.CPU)
	b.printChanges("Steady state", changes, took, cpu...)
	b.rememberBoth(pair, "after label changes")
}

// steadyAlone measures label changes on a population of its own. First it measures their cost without capture, then with both processes at work.
func (b *bench) steadyAlone(ctx context.Context) {
	nodes := b.population(ctx)
	b.uncaptured(ctx, nodes)
	first := b.StartCapture(ctx, "")
	b.settled(ctx, first)
	b.whole(ctx)
	first.Stop()
	b.steady(ctx, b.startBoth(ctx), nodes)
}

// uncaptured makes the same changes with neither process there: what the control plane and the clients cost by themselves.
func (b *bench) uncaptured(ctx context.Context, nodes []string) {
	b.phase("%d label changes a second for %s, and nobody captures them", b.changes, b.period)
	changes := make([]change, b.changes*int(b.period/time.Second))
	var took time.Duration
	_, cpu := spent(func() { took = b.makeChanges(ctx, nodes, changes, &sync.Mutex{}, "uncaptured-") }, b.ControlPlaneCPU, b.ownCPU)
	b.printChanges("Label changes that nobody captures", changes, took, cpu...)
}

// ownCPU returns the CPU time of this program, which has all clients.
func (b *bench) ownCPU() time.Duration { return b.Usage(os.Getpid()).CPU }

// makeChanges labels one Node after the other, at the rate of the settings. Each label value is the prefix and the number of the change.
func (b *bench) makeChanges(ctx context.Context, nodes []string, changes []change, mu *sync.Mutex, prefix string) time.Duration {
	return b.pace(ctx, len(changes), b.changes, func(ctx context.Context, number int) error {
		asked := time.Now()
		err := b.Label(ctx, nodes[number%len(nodes)], changedLabel, prefix+strconv.Itoa(number))
		mu.Lock()
		defer mu.Unlock()
		changes[number].asked, changes[number].answered = asked, time.Now()
		return err
	})
}

// printChanges prints how long changes took. The CPU times are of the control plane, of the clients and, if it ran, of capture.
func (b *bench) printChanges(title string, changes []change, took time.Duration, cpu ...time.Duration) {
	percent := func(cpu time.Duration) string { return fmt.Sprintf("%.0f %%", 100*cpu.Seconds()/took.Seconds()) }
	head := fmt.Sprintf("%s: %d in %s, %.0f a second; of one CPU the control plane used %s, these clients %s",
		title, len(changes), measure.Seconds(took), measure.Rate(len(changes), took), percent(cpu[0]), percent(cpu[1]))
	if len(cpu) > 2 {
		head += ", capture " + percent(cpu[2])
	}
	table := b.table(head, "time", "p50", "p90", "p99", "longest")
	row := func(name string, from, to func(change) time.Time) {
		var times measure.Times
		for _, c := range changes {
			if to(c).IsZero() {
				return
			}
			times = append(times, max(0, to(c).Sub(from(c))))
		}
		table.Row(name, times.Milliseconds(0.5, 0.9, 0.99, 1))
	}
	asked := func(c change) time.Time { return c.asked }
	answered := func(c change) time.Time { return c.answered }
	stored := func(c change) time.Time { return c.stored }
	row("the PATCH of the Node", asked, answered)
	row("from its being sent until a watch brings the record", asked, stored)
	row("from its answer until a watch brings the record", answered, stored)
	table.Flush()
}

// pace calls do count times, at perSecond calls a second. It does not wait for one call before the next. The first error ends the run, when all
// are over.
func (b *bench) pace(ctx context.Context, count, perSecond int, fn func(ctx context.Context, number int) error) time.Duration {
	const mostAtOnce = 1000 // where the API server cannot keep up, the rate sinks and the title shows it
	all, running := errgroup.WithContext(ctx)
	all.SetLimit(mostAtOnce)
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	began := time.Now()
	for number := range count {
		select {
		case <-ticker.C:
			all.Go(func() error { return fn(running, number) })
			continue
		case <-running.Done():
		}
		break
	}
	require.NoError(b, all.Wait())
	require.NoError(b, ctx.Err())
	return time.Since(began)
}
