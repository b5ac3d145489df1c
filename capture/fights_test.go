package capture

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

var fought = setting{item: "dedicated:NoSchedule", value: "ci"}

// attacked has a client undo at once what nodekeep sets, and counts how often nodekeep sets it and how often it reports that.
func attacked(b *fights, object types.UID, set setting, from, until time.Time) (sets, reports int) {
	for clock := from; clock.Before(until); clock = clock.Add(10 * time.Millisecond) {
		wait, begins := b.Allow(object, set, clock)
		if begins {
			reports++
		}
		if wait == 0 {
			b.Done(object, set, clock)
			sets++
		}
	}
	return sets, reports
}

func TestAnItemThatAnotherClientKeepsUndoingIsSetLessAndLessOften(t *testing.T) {
	for length, want := range map[time.Duration]int{10 * time.Second: 7, time.Minute: 9, time.Hour: 23} {
		sets, reports := attacked(newFights(longestPause), "1", fought, now, now.Add(length))
		assert.Equal(t, want, sets, "in %s", length)
		assert.Equal(t, 1, reports, "in %s", length)
	}
}

func TestOtherItemsAndOtherNodesDoNotWaitForAPause(t *testing.T) {
	b := newFights(longestPause)
	attacked(b, "1", fought, now, now.Add(time.Minute))
	clock := now.Add(time.Minute)
	assert.Equal(t, 1, b.paused(clock))
	for name, c := range map[string]struct {
		object types.UID
		set    setting
		waits  bool
	}{
		"the item itself":       {"1", fought, true},
		"another item":          {"1", setting{item: "dedicated:NoExecute", value: "ci"}, false},
		"another value":         {"1", setting{item: fought.item, value: "gpu"}, false},
		"the item's removal":    {"1", setting{item: fought.item, removed: true}, false},
		"another Node":          {"2", fought, false},
		"a label of that value": {"1", setting{item: "dedicated", value: "ci"}, false},
	} {
		wait, _ := b.Allow(c.object, c.set, clock)
		assert.Equal(t, c.waits, wait > 0, name)
	}
}

func TestAFightIsForgottenAfterAQuietTimeOrWithAChangeOfThePolicy(t *testing.T) {
	b := newFights(longestPause)
	attacked(b, "1", fought, now, now.Add(time.Hour))
	clock := now.Add(2 * time.Hour)
	assert.Zero(t, b.paused(clock))
	sets, reports := attacked(b, "1", fought, clock, clock.Add(time.Second/2))
	assert.Equal(t, 4, sets)
	assert.Equal(t, 1, reports)
	b.items.clear()
	assert.Zero(t, b.paused(clock))
	wait, _ := b.Allow("1", fought, clock.Add(time.Second/2))
	assert.Zero(t, wait)
}

func TestAnItemIsNotCountedAsPausedOnceItIsSetOrWantedNoLonger(t *testing.T) {
	b := newFights(longestPause)
	attacked(b, "1", fought, now, now.Add(10*time.Second))
	assert.Equal(t, 1, b.paused(now.Add(10*time.Second)))
	b.Done("1", fought, now.Add(15*time.Second))
	assert.Zero(t, b.paused(now.Add(15*time.Second)))
	_, _ = b.Allow("1", fought, now.Add(16*time.Second))
	assert.Equal(t, 1, b.paused(now.Add(16*time.Second)))
	assert.Zero(t, b.paused(now.Add(time.Hour)))
}

func TestWhatABrakeRemembersIsBounded(t *testing.T) {
	b := newFights(longestPause)
	b.items.most = 10
	for i := range 30 {
		b.Done(types.UID(fmt.Sprint(i)), fought, now)
	}
	assert.LessOrEqual(t, len(b.items.fresh)+len(b.items.former), 20)
	sets, _ := attacked(b, "new", fought, now, now.Add(10*time.Second))
	assert.Equal(t, 7, sets, "a new fight must find room")
}
