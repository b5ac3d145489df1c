package capture

import (
	"hash/maphash"
	"sync"
	"time"
)

// recordInterval is how often the record of a Node is written whose labels or taints change all the time.
const recordInterval = time.Second

// coalescer has changes of a Node that follow each other closely recorded together. It is in memory only.
type coalescer struct {
	interval time.Duration // 0: no write waits

	mu   sync.Mutex
	seed maphash.Seed
	due  recent[uint64, time.Time] // by Node
}

func newCoalescer(interval time.Duration) *coalescer {
	return &coalescer{
		interval: interval, seed: maphash.MakeSeed(),
		due: recent[uint64, time.Time]{window: 2 * recordBurst * interval, most: maxRemembered},
	}
}

// wait is how long the record of a Node must not be written yet; 0: it may be now.
func (c *coalescer) wait(node string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	due, _ := c.due.get(maphash.String(c.seed, node), now)
	wait, _ := paced(due, now, c.interval)
	return wait
}

// wrote notes a write.
func (c *coalescer) wrote(node string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := maphash.String(c.seed, node)
	due, _ := c.due.get(at, now)
	_, due = paced(due, now, c.interval)
	c.due.put(at, due, now)
}
