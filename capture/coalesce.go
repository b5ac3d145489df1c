package capture

import "time"

// The record of a Node whose labels or taints change all the time is first written recordBurst times at once. Then one write in each
// recordInterval records its changes together.
const (
	recordBurst    = 3
	recordInterval = time.Second
)

// coalescer has changes of a Node that follow each other closely recorded together. It is in memory only.
type coalescer struct {
	interval time.Duration      // 0: no write waits
	due      *recent[time.Time] // by Node: the moment until which it has used up its writes
}

func newCoalescer(interval time.Duration) *coalescer {
	return &coalescer{interval: interval, due: newRecent[time.Time](2 * recordBurst * interval)}
}

// wait is how long the record of a Node must not be written yet; 0: it may be now.
func (c *coalescer) wait(node string, now time.Time) time.Duration {
	return max(0, c.due.get(node, now).Sub(now.Add((recordBurst-1)*c.interval)))
}

// wrote notes a write.
func (c *coalescer) wrote(node string, now time.Time) {
	due := c.due.get(node, now)
	if due.Before(now) {
		due = now
	}
	c.due.put(node, due.Add(c.interval), now)
}
