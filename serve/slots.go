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
	turnsOfOne = 1
	turnsOfAll = 3
)

// Turns lets few requests run at one time. The others wait in the order of their arrival, those of one address for each other first. So a caller
// with many requests does not keep another address waiting for more than its few turns.
type Turns struct {
	all *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*caller
}

// caller is an address with requests that run or wait.
type caller struct {
	requests int
	turns    *semaphore.Weighted
}

// NewTurns makes the turns of one listener.
func NewTurns() *Turns {
	return &Turns{all: semaphore.NewWeighted(turnsOfAll), callers: map[string]*caller{}}
}

// Handler answers each request in its turn. A caller who leaves waits no longer.
func (t *Turns) Handler(next http.Handler) http.Handler {
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
func (t *Turns) begin(ctx context.Context, address string) (end func(), err error) {
	of := t.arrive(address)
	if err := of.turns.Acquire(ctx, 1); err != nil {
		t.leave(address)
		return nil, err
	}
	if err := t.all.Acquire(ctx, 1); err != nil {
		of.turns.Release(1)
		t.leave(address)
		return nil, err
	}
	return func() {
		t.all.Release(1)
		of.turns.Release(1)
		t.leave(address)
	}, nil
}

func (t *Turns) arrive(address string) *caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.callers[address]
	if of == nil {
		of = &caller{turns: semaphore.NewWeighted(turnsOfOne)}
		t.callers[address] = of
	}
	of.requests++
	return of
}

func (t *Turns) leave(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.callers[address]
	if of.requests--; of.requests == 0 {
		delete(t.callers, address)
	}
}
