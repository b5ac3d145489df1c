package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// shared bounds how much of some work is done at once. Callers that want the same at the same time share one result. Nothing is
// remembered beyond the work.
type shared[T any] struct {
	atOnce int

	mu     sync.Mutex
	places chan struct{}
	began  int // how often work has begun so far
	byName map[string]*sharedWork[T]
}

type sharedWork[T any] struct {
	number int // 0 while it waits for a place
	done   chan struct{}
	result T
	err    error
}

// run works, or waits for the result of another caller's work on the name, while ctx lasts. Work that had begun before this call does not
// count: the state that it read may have changed since. Work that has begun continues when its caller leaves.
func (s *shared[T]) run(ctx context.Context, name string, work func() (T, error)) (T, error) {
	s.mu.Lock()
	came := s.began
	for {
		running, found := s.byName[name]
		if !found {
			break
		}
		s.mu.Unlock()
		select {
		case <-running.done:
		case <-ctx.Done():
			var zero T
			return zero, ctx.Err()
		}
		if running.number > came && !gaveUp(running.err) {
			return running.result, running.err
		}
		s.mu.Lock()
	}
	started := &sharedWork[T]{done: make(chan struct{})}
	if s.byName == nil {
		s.byName, s.places = map[string]*sharedWork[T]{}, make(chan struct{}, s.atOnce)
	}
	s.byName[name] = started
	s.mu.Unlock()
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		started.err = ctx.Err()
		s.end(name, started)
		return started.result, started.err
	}
	s.mu.Lock()
	s.began++
	started.number = s.began
	s.mu.Unlock()
	go func() {
		defer func() {
			if cause := recover(); cause != nil { // no caller would recover it, and one Node must not stop the process
				started.err = fmt.Errorf("panicked: %v", cause)
			}
			<-s.places
			s.end(name, started)
		}()
		started.result, started.err = work()
	}()
	select {
	case <-started.done:
		return started.result, started.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// end lets everybody have the result, and forgets the name.
func (s *shared[T]) end(name string, work *sharedWork[T]) {
	s.mu.Lock()
	delete(s.byName, name)
	s.mu.Unlock()
	close(work.done)
}

// gaveUp reports whether work ended because the caller who did it had no more time; others may have.
func gaveUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
