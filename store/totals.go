package store

import "sync"

// totals are what all records in memory come to. They are kept with every event, so that nobody who asks walks 100,000
// records; the writes of our own that the watch has not brought yet are not among them.
type totals struct {
	mu         sync.Mutex
	readable   int
	unreadable int
	bytes      int
	sizes      map[int]int // how many records there are of each size
}

// replaced notes that one state of a record took the place of another; nil stands for none.
func (t *totals) replaced(before, after any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(before, -1)
	t.add(after, 1)
}

func (t *totals) add(object any, n int) {
	entry, ok := entryOf(object)
	if !ok {
		return
	}
	if entry.unreadable() == nil {
		t.readable += n
	} else {
		t.unreadable += n
	}
	bytes := int(entry.bytes)
	t.bytes += n * bytes
	if t.sizes[bytes] += n; t.sizes[bytes] == 0 {
		delete(t.sizes, bytes)
	}
}

func (t *totals) count() (readable, unreadable int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readable, t.unreadable
}

// size is how many bytes all records have, and the largest. There are few different sizes, however many records.
func (t *totals) size() (all, largest int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for size := range t.sizes {
		largest = max(largest, size)
	}
	return t.bytes, largest
}
