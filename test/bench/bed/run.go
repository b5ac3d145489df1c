package bed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// Run is one run of a benchmark. To package require it is what testing.T is: the first step that fails ends the run.
type Run struct {
	mu       sync.Mutex
	failed   []error
	cleanups []func() error
}

// Start calls a program, which goes to its end or to the first step that fails. Then it cleans up, and returns what failed.
func Start(program func(*Run)) error {
	r := &Run{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		program(r)
	}()
	<-ended
	for _, cleanup := range slices.Backward(r.cleanups) {
		r.failed = append(r.failed, cleanup())
	}
	return errors.Join(r.failed...)
}

// Cleanup has something done at the end of the run, however it ends. What is added last is done first.
func (r *Run) Cleanup(fn func() error) { r.cleanups = append(r.cleanups, fn) }

// Errorf notes a step that failed.
func (r *Run) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Errorf(format, args...))
}

// FailNow ends the goroutine of the run.
func (r *Run) FailNow() { runtime.Goexit() }

// Load calls do for every name, so many at a time, as measure.Run does. The first error ends the run.
func (r *Run) Load(ctx context.Context, names []string, atOnce int, fn func(ctx context.Context, name string) error) measure.Load {
	load, err := measure.Run(ctx, names, atOnce, fn)
	require.NoError(r, err)
	return load
}
