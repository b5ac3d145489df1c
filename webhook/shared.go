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

// do works, or waits for the result of another caller's work on the name, while ctx lasts. Work that had begun before this call does not
// count: the state that it read may have changed since. Work that has begun continues when its caller leaves.
func (s *shared[T]) do(ctx context.Context, name string, work func() (T, error)) (T, error) {
	s.mu.Lock()
	came := s.began
	for {
		other, found := s.byName[name]
		if !found {
			break
		}
		s.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
		if other.number > came && !gaveUp(other.err) {
			return other.result, other.err
		}
		s.mu.Lock()
	}
	own := &sharedWork[T]{done: make(chan struct{})}
	if s.byName == nil {
		s.byName, s.places = map[string]*sharedWork[T]{}, make(chan struct{}, s.atOnce)
	}
	s.byName[name] = own
	s.mu.Unlock()
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		own.err = ctx.Err()
		s.end(name, own)
		return own.result, own.err
	}
	s.mu.Lock()
	s.began++
	own.number = s.began
	s.mu.Unlock()
	go func() {
		defer func() {
			if cause := recover(); cause != nil { // no caller would recover it, and one Node must not stop the process
				own.err = fmt.Errorf("panicked: %v", cause)
			}
			<-s.places
			s.end(name, own)
		}()
		own.result, own.err = work()
	}()
	select {
	case <-own.done:
		return own.result, own.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// end lets everybody have the result, and forgets the name.
func (s *shared[T]) end(name string, own *sharedWork[T]) {
	s.mu.Lock()
	delete(s.byName, name)
	s.mu.Unlock()
	close(own.done)
}

// gaveUp reports whether work ended because the caller who did it had no more time; others may have.
func gaveUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
