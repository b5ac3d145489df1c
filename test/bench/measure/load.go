package measure

import (
	"context"
	"sync"
	"time"
)

// Load is what a number of calls went through.
type Load struct {
	Times Times         // of the calls that succeeded, in no order
	Took  time.Duration // all of them together
}

// Run calls do for every name, so many at a time, and notes how long each call took. It stops at the first error.
func Run(ctx context.Context, names []string, atOnce int, fn func(ctx context.Context, name string) error) (Load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan string)
	times := make([]Times, atOnce)
	var workers sync.WaitGroup
	began := time.Now()
	for n := range atOnce {
		workers.Go(func() {
			for name := range queue {
				start := time.Now()
				if err := fn(ctx, name); err != nil {
					cancel(err)
					return
				}
				times[n] = append(times[n], time.Since(start))
			}
		})
	}
	for _, name := range names {
		select {
		case queue <- name:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	workers.Wait()
	load := Load{Took: time.Since(began)}
	for _, part := range times {
		load.Times = append(load.Times, part...)
	}
	return load, context.Cause(ctx)
}

// Rate is calls a second.
func (l Load) Rate() float64 { return Rate(len(l.Times), l.Took) }

// Rate returns how many a second so many in so long are.
func Rate(count int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(count) / took.Seconds()
}
