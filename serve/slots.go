package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// How many requests run at one time: of one address, and of all.
const (
	slotsPerCaller = 1
	slotsInAll     = 3
)

// Slots lets few requests run at one time. The others wait in the order of their arrival, those of one address for each other first. So a caller
// with many requests does not keep another address waiting for more than its few turns.
type Slots struct {
	all *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*caller
}

// caller is an address with requests that run or wait.
type caller struct {
	requests int
	slots    *semaphore.Weighted
}

// NewSlots makes the turns of one listener.
func NewSlots() *Slots {
	return &Slots{all: semaphore.NewWeighted(slotsInAll), callers: map[string]*caller{}}
}

// Handler answers each request in its turn. A caller who leaves waits no longer.
func (t *Slots) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, err := t.begin(r.Context(), AddressOf(r.RemoteAddr))
		if err != nil {
			return
		}
		defer end()
		// The server's time for an answer began when the request arrived. That of a turn begins now, and ends it if the caller does not read.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		next.ServeHTTP(w, r)
	})
}

// begin waits for a turn of the address.
func (t *Slots) begin(ctx context.Context, address string) (end func(), err error) {
	caller := t.arrive(address)
	if err := caller.slots.Acquire(ctx, 1); err != nil {
		t.leave(address)
		return nil, err
	}
	if err := t.all.Acquire(ctx, 1); err != nil {
		caller.slots.Release(1)
		t.leave(address)
		return nil, err
	}
	return func() {
		t.all.Release(1)
		caller.slots.Release(1)
		t.leave(address)
	}, nil
}

func (t *Slots) arrive(address string) *caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	entry := t.callers[address]
	if entry == nil {
		entry = &caller{slots: semaphore.NewWeighted(slotsPerCaller)}
		t.callers[address] = entry
	}
	entry.requests++
	return entry
}

func (t *Slots) leave(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	caller := t.callers[address]
	if caller.requests--; caller.requests == 0 {
		delete(t.callers, address)
	}
}
