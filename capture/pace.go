package capture

import (
	"time"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
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

// coalesces reports whether a step records a change of a live Node that nothing waits for: no gate, no registration and no
// deletion. A record that is written only to precede a rule's taint does not count: the brake bounds these.
func coalesces(prev *store.Record, seen *Node, next Plan, p policy.Policy) bool {
	return next.Step == Update && prev != nil && !next.Write.Same(*prev) &&
		prev.UID == seen.UID && prev.DeletedAt == nil && !prev.Early && !seen.deleting() && !p.Gate().On(seen.Taints)
}
