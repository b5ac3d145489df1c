package webhook

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"nodekeep.dev/nodekeep/serve"
)

// The budget of the reviews that are in flight, in bytes. Reviews of usual size have a part of their own, so that large ones cannot take
// their place. One address gets a third of each part, so that one caller alone can fill neither. Decoded reviews need additional memory:
// three times as much, measured.
const (
	usualReviewBytes = 256 << 10 // the review of most Nodes is a tenth of that
	usualBudget      = 24 << 20
	largeBudget      = 24 << 20
	shareOfBudget    = 3
	// reviewOverhead is what a review costs in addition to its body: buffers of its connection, its goroutine, its answer.
	reviewOverhead = 16 << 10
)

// maxSlots is how many reviews of one address are decoded at one time at most. A decision takes less than a millisecond.
const maxSlots = 4

// Limits bound what reviews may take of the process. All paths share one.
//
// Bytes: a review counts from before its body is read until it is answered. A review that does not fit is not read at all.
//
// Turns: decoding multiplies bytes, some of them by more than ten, and uses all CPU it gets. So few usual reviews of one address are
// decoded at a time, on half of the CPUs. In addition, one large review of all addresses is decoded. Other reviews wait, but usual reviews
// of other addresses do not wait for them.
type Limits struct {
	usual, large *semaphore.Weighted // bytes
	oneLarge     *semaphore.Weighted
	slots        int64

	mu      sync.Mutex
	callers map[string]*caller
}

// NewLimits makes the limits of a process.
func NewLimits() *Limits {
	return &Limits{
		usual: semaphore.NewWeighted(usualBudget), large: semaphore.NewWeighted(largeBudget), oneLarge: semaphore.NewWeighted(1),
		slots:   int64(min(max(runtime.GOMAXPROCS(0)/2, 1), maxSlots)),
		callers: map[string]*caller{},
	}
}

// caller is an address with reviews in flight, and its share of the limits.
type caller struct {
	reviews      int
	usual, large *semaphore.Weighted // bytes
	slots        *semaphore.Weighted
}

// inFlight is a review that counts.
type inFlight struct {
	limits    *Limits
	address   string
	caller    *caller
	weight    int64
	large     bool
	slotTaken bool
}

// admit counts a review of that length (negative: unknown, which counts as the longest), if it fits. Then release must follow.
func (l *Limits) admit(remoteAddress string, length int64) (inFlight, bool) {
	if length < 0 {
		length = maxReviewBytes
	}
	f := inFlight{limits: l, address: serve.AddressOf(remoteAddress), weight: length + reviewOverhead, large: length > usualReviewBytes}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.caller = l.callers[f.address]; f.caller == nil {
		f.caller = &caller{
			usual: semaphore.NewWeighted(usualBudget / shareOfBudget), large: semaphore.NewWeighted(largeBudget / shareOfBudget), slots: semaphore.NewWeighted(l.slots),
		}
	}
	all, reserved := f.parts()
	if !all.TryAcquire(f.weight) {
		return inFlight{}, false
	}
	if !reserved.TryAcquire(f.weight) {
		all.Release(f.weight)
		return inFlight{}, false
	}
	f.caller.reviews++
	l.callers[f.address] = f.caller
	return f, true
}

func (f *inFlight) parts() (all, reserved *semaphore.Weighted) {
	if f.large {
		return f.limits.large, f.caller.large
	}
	return f.limits.usual, f.caller.usual
}

// begin waits for the review's turn. A large review waits only for other large reviews. If it also waited for a turn of its address, large
// reviews of other addresses would wait for that address.
func (f *inFlight) begin(ctx context.Context) error {
	if err := f.waitsFor().Acquire(ctx, 1); err != nil {
		return err
	}
	f.slotTaken = true
	return nil
}

// end gives the turn to the next review; without a turn it does nothing.
func (f *inFlight) end() {
	if !f.slotTaken {
		return
	}
	f.slotTaken = false
	f.waitsFor().Release(1)
}

func (f *inFlight) waitsFor() *semaphore.Weighted {
	if f.large {
		return f.limits.oneLarge
	}
	return f.caller.slots
}

// release counts the review no longer.
func (f *inFlight) release() {
	f.end()
	all, reserved := f.parts()
	all.Release(f.weight)
	reserved.Release(f.weight)
	f.limits.mu.Lock()
	defer f.limits.mu.Unlock()
	if f.caller.reviews--; f.caller.reviews == 0 {
		delete(f.limits.callers, f.address)
	}
}
