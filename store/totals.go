package store

import "sync"

// Totals are what all records in memory come to.
type Totals struct {
	Readable, Unreadable int // how many ConfigMaps there are that hold a record
	Bytes, Largest       int // how large all records are as they are stored, and the largest; see [record.MaxBytes]
}

// totals are updated with every event, so that a caller does not walk 100,000 records. Our own writes that the watch has not delivered yet
// are not counted.
type totals struct {
	mu         sync.Mutex
	unreadable int
	sizes      map[int]int // how many records there are of each size, of which there are few
}

// replaced notes that one state of a record has replaced another; nil stands for none.
func (t *totals) replaced(oldObject, newObject any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(oldObject, -1)
	t.add(newObject, 1)
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
