package capture

import (
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// brake makes nodekeep wait before it sets an item of a Node object again that another client keeps undoing. It is in
// memory only, 15 MB at most: a restart begins anew.
type brake struct {
	longest time.Duration // no pause is longer; 0: there are none

	mu     sync.Mutex
	seed   maphash.Seed
	fights recent[uint64, fight] // by Node object and item
	held   map[uint64]time.Time  // until when items wait that are not as nodekeep wants them
}

func newBrake(longest time.Duration) *brake {
	return &brake{
		longest: longest, seed: maphash.MakeSeed(), held: map[uint64]time.Time{},
		fights: recent[uint64, fight]{window: 2*longest + flapWindow, most: maxRemembered},
	}
}

// Allow is how long nodekeep must wait before it sets an item of a Node object; 0: it may do so now. begins is true the
// first time that an item has to wait, once in each fight.
func (b *brake) Allow(object types.UID, set setting, now time.Time) (wait time.Duration, begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, to := b.hashes(object, set)
	of, _ := b.fights.get(at, now)
	wait = of.waits(to, now, b.longest)
	if wait == 0 {
		return 0, false
	}
	if len(b.held) < maxRemembered {
		b.held[at] = now.Add(wait)
	}
	begins = !of.reported
	of.reported = true
	b.fights.put(at, of, now)
	return wait, begins
}

// Done notes that nodekeep has set an item of a Node object.
func (b *brake) Done(object types.UID, set setting, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, to := b.hashes(object, set)
	of, _ := b.fights.get(at, now)
	b.fights.put(at, of.after(to, now, b.longest), now)
	delete(b.held, at)
}

// paused is how many items are not as nodekeep wants them, and wait.
func (b *brake) paused(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, until := range b.held {
		if !until.After(now) {
			delete(b.held, at)
		}
	}
	return len(b.held)
}

// clear forgets all fights.
func (b *brake) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fights.fresh, b.fights.former = nil, nil
	clear(b.held)
}

// hashes stand for an item of a Node object and for what it is set to: strings would keep the Nodes in memory that they
// are part of.
func (b *brake) hashes(object types.UID, set setting) (at, to uint64) {
	return maphash.Comparable(b.seed, changedItem{object: object, item: set.item}), maphash.Comparable(b.seed, set)
}
