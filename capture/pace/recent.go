package pace

import (
	"hash/maphash"
	"sync"
	"time"
)

// maxRemembered bounds how much is held of each window, the current and the previous one. Beyond it, the oldest is forgotten earlier. Full
// windows of changes take 12 MB each, and are dropped with the first change after the next window.
const maxRemembered = 100_000

// recent is a map whose entries are forgotten some time after they were last put. That is after one to two windows, or earlier if there are
// more entries than it may hold. Keys are hashed: strings would keep their Nodes in memory. Only one worker at a time works on a Node. So
// nothing comes between a get and a put of the same key.
type recent[V any] struct {
	window time.Duration
	most   int // entries of each window, this one and the one before
	seed   maphash.Seed

	mu            sync.Mutex
	fresh, former map[uint64]V
	since         time.Time // since when fresh has been filled
}

func newRecent[V any](window time.Duration) *recent[V] {
	return &recent[V]{window: window, most: maxRemembered, seed: maphash.MakeSeed()}
}

func (r *recent[V]) hash(key any) uint64 { return maphash.Comparable(r.seed, key) }

// get returns the zero value where nothing is held.
func (r *recent[V]) get(key any, now time.Time) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	at := r.hash(key)
	if value, found := r.fresh[at]; found {
		return value
	}
	return r.former[at]
}

func (r *recent[V]) put(key any, value V, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	at := r.hash(key)
	if _, found := r.fresh[at]; !found && len(r.fresh) >= r.most { // the newest entries count more than the oldest
		r.turn(now)
	}
	r.fresh[at] = value
}

// count returns how many of the entries are meant.
func (r *recent[V]) count(meant func(V) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, value := range r.fresh {
		if meant(value) {
			n++
		}
	}
	for at, value := range r.former {
		if _, newer := r.fresh[at]; !newer && meant(value) {
			n++
		}
	}
	return n
}

func (r *recent[V]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh, r.former = nil, nil
}

// forget drops what is older than a window, a window at a time.
func (r *recent[V]) forget(now time.Time) {
	if age := now.Sub(r.since); r.fresh == nil || age >= r.window {
		r.turn(now)
		if age >= 2*r.window {
			r.former = nil
		}
	}
}

func (r *recent[V]) turn(now time.Time) {
	r.former, r.fresh, r.since = r.fresh, map[uint64]V{}, now
}
