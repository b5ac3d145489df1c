package pace

import (
	"hash/maphash"
	"sync"
	"time"
)

// maxRemembered bounds the entries of each of the two windows, the current and the previous one. If there are more, the oldest are forgotten earlier. A
// full window takes 12 MB.
const maxRemembered = 100_000

// recent is a map that forgets an entry one to two windows after it was last put, or earlier when it is full. Keys are hashed: strings would keep their
// Nodes in memory. Only one worker at a time works on a Node, so nothing comes between a get and a put of the same key.
type recent[V any] struct {
	window time.Duration
	limit  int // entries of each window, this one and the one before
	seed   maphash.Seed

	mu              sync.Mutex
	fresh, previous map[uint64]V
	start           time.Time // since when fresh has been filled
}

func newRecent[V any](window time.Duration) *recent[V] {
	return &recent[V]{window: window, limit: maxRemembered, seed: maphash.MakeSeed()}
}

func (r *recent[V]) hash(key any) uint64 { return maphash.Comparable(r.seed, key) }

// get returns the zero value where nothing is held.
func (r *recent[V]) get(key any, now time.Time) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	hash := r.hash(key)
	if value, found := r.fresh[hash]; found {
		return value
	}
	return r.previous[hash]
}

func (r *recent[V]) put(key any, value V, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	hash := r.hash(key)
	if _, found := r.fresh[hash]; !found && len(r.fresh) >= r.limit { // the newest entries count more than the oldest
		r.rotate(now)
	}
	r.fresh[hash] = value
}

// count returns how many entries match. An entry of the previous window does not count if a newer one has its key.
func (r *recent[V]) count(match func(V) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, value := range r.fresh {
		if match(value) {
			n++
		}
	}
	for hash, value := range r.previous {
		if _, newer := r.fresh[hash]; !newer && match(value) {
			n++
		}
	}
	return n
}

func (r *recent[V]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh, r.previous = nil, nil
}

// forget drops what is older than a window, a window at a time.
func (r *recent[V]) forget(now time.Time) {
	if age := now.Sub(r.start); r.fresh == nil || age >= r.window {
		r.rotate(now)
		if age >= 2*r.window {
			r.previous = nil
		}
	}
}

func (r *recent[V]) rotate(now time.Time) {
	r.previous, r.fresh, r.start = r.fresh, map[uint64]V{}, now
}
