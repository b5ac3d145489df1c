package pace

import "time"

// The record of a Node whose labels or taints change all the time is first written recordBurst times at once. Then one write in each
// RecordInterval records its changes together.
const (
	recordBurst    = 3
	RecordInterval = time.Second
)

// BootInterval is how often the boot of one Node is noted, after recordBurst times at once. No machine reboots so often, but a kubelet may say so.
const BootInterval = 10 * time.Second

// Coalescer has changes of a Node that follow each other closely written together: in its record, or its boots in its stamp. It is in memory only. Any
// goroutine may call its methods; one at a time works on a Node.
type Coalescer struct {
	interval   time.Duration      // 0: no write waits
	refilledAt *recent[time.Time] // by Node: when its allowance of writes is full again (a leaky bucket)
}

// NewCoalescer returns a coalescer that allows one write in each interval, after a burst of recordBurst.
func NewCoalescer(interval time.Duration) *Coalescer {
	return &Coalescer{interval: interval, refilledAt: newRecent[time.Time](2 * recordBurst * interval)}
}

// Wait returns how long a change of a Node must not be written yet; 0: it may be now.
func (c *Coalescer) Wait(node string, now time.Time) time.Duration {
	return max(0, c.refilledAt.get(node, now).Sub(now.Add((recordBurst-1)*c.interval)))
}

// Wrote notes a write.
func (c *Coalescer) Wrote(node string, now time.Time) {
	end := c.refilledAt.get(node, now)
	if end.Before(now) {
		end = now
	}
	c.refilledAt.put(node, end.Add(c.interval), now)
}
