package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallersThatWantTheSameShareWorkThatBeganAfterTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{atOnce: 10}
		var calls atomic.Int64
		results := make(chan int, 100)
		caller := func() {
			result, err := s.run(t.Context(), "a", func() (int, error) { // returns how often it has begun
				began := int(calls.Add(1))
				time.Sleep(time.Second)
				return began, nil
			})
			assert.NoError(t, err)
			results <- result
		}
		go caller()
		time.Sleep(500 * time.Millisecond)
		for range 50 { // the first has read what may have changed since
			go caller()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, <-results)
		for range 50 {
			assert.Equal(t, 2, <-results)
		}
		assert.Empty(t, s.byName)
	})
}

func TestWorkIsBoundedAndNobodyWaitsLongerThanHeHasTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{atOnce: 3}
		var running, maximum, failed, done atomic.Int64
		for n := range 100 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
				defer cancel()
				_, err := s.run(ctx, fmt.Sprint(n), func() (int, error) {
					maximum.Store(max(maximum.Load(), running.Add(1)))
					defer running.Add(-1)
					time.Sleep(time.Second)
					return 0, nil
				})
				if errors.Is(err, context.DeadlineExceeded) {
					failed.Add(1)
				} else {
					done.Add(1)
				}
			}()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 3, maximum.Load())
		assert.EqualValues(t, 6, done.Load(), "three more are worked on to the end, and nobody waits for them")
		assert.EqualValues(t, 94, failed.Load())
		assert.Empty(t, s.byName, "no name stays")
	})
}

func TestACallerWithTimeLeftWorksHimselfWhereAnotherGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{atOnce: 1}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			_, _ = s.run(t.Context(), "other", func() (int, error) { time.Sleep(3 * time.Second); return 0, nil })
		}()
		synctest.Wait()
		go func() {
			_, err := s.run(short, "a", func() (int, error) { return 1, nil })
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}()
		synctest.Wait()
		result, err := s.run(t.Context(), "a", func() (int, error) { return 2, nil })
		require.NoError(t, err)
		assert.Equal(t, 2, result)
	})
}

func TestWorkThatPanicsKeepsNobodyWaiting(t *testing.T) {
	s := shared[int]{atOnce: 1}
	_, err := s.run(t.Context(), "a", func() (int, error) { panic("spoilt") })
	require.ErrorContains(t, err, "spoilt")
	result, err := s.run(t.Context(), "a", func() (int, error) { return 1, nil })
	require.NoError(t, err)
	assert.Equal(t, 1, result)
}
