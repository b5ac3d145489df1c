package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestForEachDoesAllOfThemSomeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int32
		err := forEach(t.Context(), make([]int, 100), func(context.Context, int) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			all.Add(1)
			return nil
		})
		require.NoError(t, err)
		assert.EqualValues(t, 100, all.Load())
		assert.LessOrEqual(t, most.Load(), int32(stepsAtOnce))
	})
}

func TestForEachBeginsNothingMoreAfterAnErrorAndFinishesWhatWasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("disk full")
		var mu sync.Mutex
		var finished []int
		err := forEach(t.Context(), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, func(ctx context.Context, i int) error {
			if i == 3 {
				time.Sleep(time.Second)
				return failure
			}
			time.Sleep(time.Minute / 4)
			mu.Lock()
			defer mu.Unlock()
			finished = append(finished, i)
			return ctx.Err()
		})
		require.ErrorIs(t, err, failure)
		assert.Len(t, finished, stepsAtOnce-1)
		assert.False(t, slices.ContainsFunc(finished, func(i int) bool { return i >= stepsAtOnce }), "%v", finished)
	})
}

func TestForEachFinishesWhatWasBegunWhenItIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		var done atomic.Int32
		time.AfterFunc(time.Second, interrupt)
		err := forEach(ctx, make([]int, 100), func(ctx context.Context, _ int) error {
			time.Sleep(2 * time.Second)
			done.Add(1)
			return ctx.Err()
		})
		require.NoError(t, err)
		assert.EqualValues(t, stepsAtOnce, done.Load())
	})
}

func TestProgressIsShownOnTerminalsOnly(t *testing.T) {
	var file, terminal bytes.Buffer
	bar := newProgress(&file, 10, "importing")
	bar.add(5)
	bar.end()
	assert.Empty(t, file.String())

	bar = progressOn(&terminal, 10, "importing")
	bar.add(5)
	assert.Contains(t, terminal.String(), "importing")
	assert.Contains(t, terminal.String(), "5/10")
	bar.end()
	assert.Regexp(t, `\r +\r$`, terminal.String(), "it leaves an empty line")
}
