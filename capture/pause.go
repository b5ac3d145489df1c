package capture

import "time"

// freeFlaps is how often a client may undo what nodekeep sets before nodekeep waits: an operator tries something and
// reverts it, and does not do that more often within a minute.
const freeFlaps = 3

// The first pause, and the longest: each is twice as long as the one before. So nodekeep sets an item that is fought over
// 9 times in the first minute, and in the end every 5 minutes.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// fight is what nodekeep knows of an item that it sets on a Node object. Two clients fight if each undoes what the other
// sets: nodekeep sets the same item to the same value again and again.
type fight struct {
	setting  uint64    // what nodekeep set last, as a hash
	set      time.Time // when
	flaps    int       // how often in a row it had to set the same again
	reported bool      // that there is a pause
}

// pauseAfter is how long nodekeep waits after so many flaps before it sets an item again.
func pauseAfter(flaps int, longest time.Duration) time.Duration {
	if flaps < freeFlaps {
		return 0
	}
	pause := firstPause
	for range flaps - freeFlaps {
		if pause *= 2; pause >= longest {
			break
		}
	}
	return min(pause, longest)
}

// over reports whether the fight has ended: for a minute after the pause nodekeep did not have to set the item again.
func (f fight) over(now time.Time, longest time.Duration) bool {
	return now.Sub(f.set) >= pauseAfter(f.flaps, longest)+flapWindow
}

// waits is how long nodekeep still waits before it may set the item to this.
func (f fight) waits(setting uint64, now time.Time, longest time.Duration) time.Duration {
	if f.setting != setting || f.over(now, longest) {
		return 0 // another value, or the removal of the item, follows another decision
	}
	return max(0, f.set.Add(pauseAfter(f.flaps, longest)).Sub(now))
}

// after is what is known once nodekeep has set the item to this.
func (f fight) after(setting uint64, now time.Time, longest time.Duration) fight {
	if f.setting != setting || f.over(now, longest) {
		return fight{setting: setting, set: now}
	}
	f.flaps, f.set = f.flaps+1, now
	return f
}
