package pace

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/plan"
)

// FreeFlaps is how often a client may undo what nodekeep sets before nodekeep waits. An operator who tries something and reverts it does
// not do that more often within a minute.
const FreeFlaps = 3

// The first pause, and the longest. Each pause is twice as long as the one before. So nodekeep sets a fought-over item 9 times in the first
// minute, and in the end every 5 minutes.
const (
	FirstPause   = time.Second
	LongestPause = 5 * time.Minute
)

// Fights make nodekeep wait before it sets an item of a Node object again that another client keeps undoing. They are in memory only, 15 MB
// at most, and a restart clears them. Any goroutine may call its methods; one at a time works on a Node.
type Fights struct {
	longest time.Duration // no pause is longer; 0: there are none
	items   *recent[fight]
}

// NewFights knows of none; no pause is longer than that.
func NewFights(longest time.Duration) *Fights {
	return &Fights{longest: longest, items: newRecent[fight](2*longest + flapWindow)}
}

// Longest returns how long a pause may be.
func (f *Fights) Longest() time.Duration { return f.longest }

// Clear forgets all fights, for a change of the policy.
func (f *Fights) Clear() { f.items.clear() }

// Wait returns how long nodekeep must wait before it sets an item of a Node object; 0: not at all. The first time that an item has to wait,
// begins is true, once in each fight.
func (f *Fights) Wait(uid types.UID, desired plan.DesiredItem, now time.Time) (wait time.Duration, begins bool) {
	key := nodeItem{uid, desired.Item}
	fight := f.items.get(key, now)
	if wait = fight.remaining(f.items.hash(desired), now, f.longest); wait == 0 {
		return 0, false
	}
	begins = !fight.reported
	fight.reported, fight.waiting = true, true
	f.items.put(key, fight, now)
	return wait, begins
}

// NoteSet notes that nodekeep has set an item of a Node object.
func (f *Fights) NoteSet(uid types.UID, desired plan.DesiredItem, now time.Time) {
	key := nodeItem{uid, desired.Item}
	f.items.put(key, f.items.get(key, now).next(f.items.hash(desired), now, f.longest), now)
}

// Paused returns how many items are not as nodekeep wants them, and wait.
func (f *Fights) Paused(now time.Time) int {
	return f.items.count(func(item fight) bool { return item.waiting && item.remaining(item.desiredHash, now, f.longest) > 0 })
}

// fight is what nodekeep knows of an item that it sets on a Node object. Two clients fight if each undoes what the other sets. Then
// nodekeep sets the same item to the same value again and again.
type fight struct {
	desiredHash uint64    // what nodekeep set last, as a hash
	setAt       time.Time // when
	flaps       int       // how often in a row it had to set the same again
	reported    bool      // that there is a pause
	waiting     bool      // that nodekeep waits to set it again
}

// PauseAfter returns how long nodekeep waits after so many flaps before it sets an item again.
func PauseAfter(flaps int, longest time.Duration) time.Duration {
	if flaps < FreeFlaps {
		return 0
	}
	const doublings = 20 // more than any longest pause needs, and no overflow
	return min(FirstPause<<min(flaps-FreeFlaps, doublings), longest)
}

// ended reports whether the fight has ended. For a minute after the pause, nodekeep did not have to set the item again.
func (f fight) ended(now time.Time, longest time.Duration) bool {
	return now.Sub(f.setAt) >= PauseAfter(f.flaps, longest)+flapWindow
}

// remaining returns how long nodekeep still waits before it may set the item to this.
func (f fight) remaining(desiredHash uint64, now time.Time, longest time.Duration) time.Duration {
	if f.desiredHash != desiredHash || f.ended(now, longest) {
		return 0 // another value, or the removal of the item, follows another decision
	}
	return max(0, f.setAt.Add(PauseAfter(f.flaps, longest)).Sub(now))
}

// next returns what is known once nodekeep has set the item to this.
func (f fight) next(desiredHash uint64, now time.Time, longest time.Duration) fight {
	if f.desiredHash != desiredHash || f.ended(now, longest) {
		return fight{desiredHash: desiredHash, setAt: now}
	}
	f.flaps, f.setAt, f.waiting = f.flaps+1, now, false
	return f
}
