package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEachPauseIsTwiceAsLongAsTheOneBeforeUntilTheLongest(t *testing.T) {
	for flaps, want := range map[int]time.Duration{
		0: 0, 1: 0, 2: 0, 3: time.Second, 4: 2 * time.Second, 5: 4 * time.Second, 10: 128 * time.Second,
		11: 256 * time.Second, 12: 5 * time.Minute, 13: 5 * time.Minute, 1_000_000: 5 * time.Minute,
	} {
		assert.Equal(t, want, pauseAfter(flaps, longestPause), "after %d flaps", flaps)
	}
	assert.Equal(t, 500*time.Millisecond, pauseAfter(3, 500*time.Millisecond))
	assert.Zero(t, pauseAfter(100, 0))
}

func TestOnlySettingTheSameAgainSoonAfterIsAFlap(t *testing.T) {
	type set struct {
		after time.Duration
		to    uint64
		flaps int
	}
	for name, sets := range map[string][]set{
		"again at once":                         {{0, 1, 0}, {0, 1, 1}, {0, 1, 2}},
		"again within a minute":                 {{0, 1, 0}, {time.Minute - 1, 1, 1}},
		"a minute later":                        {{0, 1, 0}, {time.Minute, 1, 0}},
		"another value":                         {{0, 1, 0}, {0, 2, 0}, {0, 1, 0}},
		"within a minute of the end of a pause": {{0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {0, 1, 3}, {61*time.Second - 1, 1, 4}, {62*time.Second - 1, 1, 5}},
		"a minute after the end of a pause":     {{0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {0, 1, 3}, {61 * time.Second, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var f fight
			clock := now
			for i, set := range sets {
				clock = clock.Add(set.after)
				f = f.after(set.to, clock, longestPause)
				assert.Equal(t, fight{setting: set.to, set: clock, flaps: set.flaps}, f, "set %d", i)
			}
		})
	}
}

func TestAFightThatGoesOnIsReportedOnce(t *testing.T) {
	f := fight{setting: 1, set: now, flaps: 5, reported: true}
	assert.True(t, f.after(1, now.Add(10*time.Second), longestPause).reported)
	assert.False(t, f.after(1, now.Add(10*time.Minute), longestPause).reported, "the next fight is another one")
	assert.False(t, f.after(2, now.Add(10*time.Second), longestPause).reported)
}

func TestAnotherValueWaitsForNoPause(t *testing.T) {
	f := fight{setting: 1, set: now, flaps: 4}
	assert.Equal(t, 2*time.Second, f.waits(1, now, longestPause))
	assert.Equal(t, time.Second, f.waits(1, now.Add(time.Second), longestPause))
	assert.Zero(t, f.waits(1, now.Add(2*time.Second), longestPause))
	assert.Zero(t, f.waits(1, now.Add(time.Hour), longestPause))
	assert.Zero(t, f.waits(2, now, longestPause))
}
