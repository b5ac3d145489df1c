package capture

import (
	"time"
)

// recordBurst is how many changes of a Node are recorded at once after a quiet time. After that its changes are recorded
// together, once in each interval.
const recordBurst = 3

// paced is how long the next write of a Node's record waits, and what to remember if it is made now. due is what was
// remembered at the write before: the moment until which the Node has used up its writes.
func paced(due, now time.Time, interval time.Duration) (wait time.Duration, after time.Time) {
	if due.Before(now) {
		due = now
	}
	wait = max(0, due.Sub(now)-(recordBurst-1)*interval)
	return wait, due.Add(interval)
}
