package store

import "sync"

// Totals are what all records in memory come to.
type Totals struct {
	Readable, Unreadable int // how many ConfigMaps there are that hold a record
	Bytes, Largest       int // how large all records are as they are stored, and the largest; see [record.MaxBytes]
}

// totals are kept with every event, so that nobody who asks walks 100,000 records; the writes of our own that the watch has not
// brought yet are not among them.
type totals struct {
	mu         sync.Mutex
	unreadable int
	sizes      map[int]int // how many records there are of each size, of which there are few
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
	if entry.unreadable() != nil {
		t.unreadable += n
	}
	bytes := int(entry.bytes)
	if t.sizes[bytes] += n; t.sizes[bytes] == 0 {
		delete(t.sizes, bytes)
	}
}

func (t *totals) sum() Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := Totals{Readable: -t.unreadable, Unreadable: t.unreadable}
	for size, n := range t.sizes {
		sum.Readable += n
		sum.Bytes += n * size
		sum.Largest = max(sum.Largest, size)
	}
	return sum
}
