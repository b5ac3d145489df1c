package cli

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// stepsAtOnce is how many things are worked on at a time.
	stepsAtOnce = 16
	// finishing is how long a step that was begun may take, also in a command that was interrupted meanwhile: what becomes of
	// it is known then.
	finishing = 30 * time.Second
)

// forEach does something for each of many, some at a time, and ends with the first error, or begins nothing more once ctx is
// done. What was begun is finished in any case.
func forEach[T any](ctx context.Context, many []T, do func(context.Context, T) error) error {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(stepsAtOnce)
	for _, one := range many {
		if working.Err() != nil {
			break
		}
		group.Go(func() error {
			if working.Err() != nil {
				return nil // not begun
			}
			step, cancel := finish(ctx)
			defer cancel()
			return do(step, one)
		})
	}
	return group.Wait()
}

// finish is for a step that changes something: also a command that is interrupted waits until it is known what became of it.
func finish(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishing)
}
