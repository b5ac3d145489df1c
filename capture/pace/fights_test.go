package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/plan"
)

var fought = plan.DesiredItem{Item: "dedicated:NoSchedule", Value: "ci"}

// attacked has a client undo at once what nodekeep sets on object 1, and counts how often nodekeep sets it and how often it reports that.
func attacked(b *Fights, desired plan.DesiredItem, from, deadline time.Time) (sets, reports int) {
	for clock := from; clock.Before(deadline); clock = clock.Add(10 * time.Millisecond) {
		wait, begins := b.Wait("1", desired, clock)
		if begins {
			reports++
		}
		if wait == 0 {
			b.NoteSet("1", desired, clock)
			sets++
		}
	}
	return sets, reports
}

func TestAnItemThatAnotherClientKeepsUndoingIsSetLessAndLessOften(t *testing.T) {
	for length, want := range map[time.Duration]int{10 * time.Second: 7, time.Minute: 9, time.Hour: 23} {
		sets, reports := attacked(NewFights(LongestPause), fought, now, now.Add(length))
		assert.Equal(t, want, sets, "in %s", length)
		assert.Equal(t, 1, reports, "in %s", length)
	}
}

func TestOtherItemsAndOtherNodesDoNotWaitForAPause(t *testing.T) {
	b := NewFights(LongestPause)
	attacked(b, fought, now, now.Add(time.Minute))
	clock := now.Add(time.Minute)
	assert.Equal(t, 1, b.Paused(clock))
	for name, c := range map[string]struct {
		object types.UID
		set    plan.DesiredItem
		waits  bool
	}{
		"the item itself":       {"1", fought, true},
		"another item":          {"1", plan.DesiredItem{Item: "dedicated:NoExecute", Value: "ci"}, false},
		"another value":         {"1", plan.DesiredItem{Item: fought.Item, Value: "gpu"}, false},
		"the item's removal":    {"1", plan.DesiredItem{Item: fought.Item, Removed: true}, false},
		"another Node":          {"2", fought, false},
		"a label of that value": {"1", plan.DesiredItem{Item: "dedicated", Value: "ci"}, false},
	} {
		wait, _ := b.Wait(c.object, c.set, clock)
		assert.Equal(t, c.waits, wait > 0, name)
	}
}

func TestAFightIsForgottenAfterAQuietTimeOrWithAChangeOfThePolicy(t *testing.T) {
	b := NewFights(LongestPause)
	attacked(b, fought, now, now.Add(time.Hour))
	clock := now.Add(2 * time.Hour)
	assert.Zero(t, b.Paused(clock))
	sets, reports := attacked(b, fought, clock, clock.Add(time.Second/2))
	assert.Equal(t, 4, sets)
	assert.Equal(t, 1, reports)
	b.Clear()
	assert.Zero(t, b.Paused(clock))
	wait, _ := b.Wait("1", fought, clock.Add(time.Second/2))
	assert.Zero(t, wait)
}

func TestAnItemIsNotCountedAsPausedOnceItIsSetOrWantedNoLonger(t *testing.T) {
	b := NewFights(LongestPause)
	attacked(b, fought, now, now.Add(10*time.Second))
	assert.Equal(t, 1, b.Paused(now.Add(10*time.Second)))
	b.NoteSet("1", fought, now.Add(15*time.Second))
	assert.Zero(t, b.Paused(now.Add(15*time.Second)))
	_, _ = b.Wait("1", fought, now.Add(16*time.Second))
	assert.Equal(t, 1, b.Paused(now.Add(16*time.Second)))
	assert.Zero(t, b.Paused(now.Add(time.Hour)))
}

func TestEachPauseIsTwiceAsLongAsTheOneBeforeUntilTheLongest(t *testing.T) {
	for flaps, want := range map[int]time.Duration{
		0: 0, 1: 0, 2: 0, 3: time.Second, 4: 2 * time.Second, 5: 4 * time.Second, 10: 128 * time.Second,
		11: 256 * time.Second, 12: 5 * time.Minute, 13: 5 * time.Minute, 1_000_000: 5 * time.Minute,
	} {
		assert.Equal(t, want, PauseAfter(flaps, LongestPause), "after %d flaps", flaps)
	}
	assert.Equal(t, 500*time.Millisecond, PauseAfter(3, 500*time.Millisecond))
	assert.Zero(t, PauseAfter(100, 0))
}

func TestOnlySettingTheSameAgainSoonAfterIsAFlap(t *testing.T) {
	type set struct {
		delay time.Duration
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
				clock = clock.Add(set.delay)
				f = f.next(set.to, clock, LongestPause)
				assert.Equal(t, fight{desiredHash: set.to, setAt: clock, flaps: set.flaps}, f, "set %d", i)
			}
		})
	}
}
