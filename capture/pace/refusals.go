package pace

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Refusals have items wait that the API server would not have on a Node object. What refuses an item may be deleted the next moment, so no
// refusal is for ever: each pause is twice as long as the one before, from [FirstPause] to [LongestPause]. Only objects on which something was
// refused are held. Any goroutine may call its methods.
type Refusals struct {
	mu    sync.Mutex
	byUID map[types.UID]*refused
}

// refused is what the API server would not have on a Node object.
type refused struct {
	rounds int // how often a change was refused as a whole
	items  map[string]refusal
}

// refusal is how often in a row an item was refused, and until when it waits.
type refusal struct {
	times int
	end   time.Time
}

// NewRefusals knows of none.
func NewRefusals() *Refusals { return &Refusals{byUID: map[types.UID]*refused{}} }

// entry returns what was refused on a Node object, for more to be added. The caller holds the lock.
func (r *Refusals) entry(uid types.UID) *refused {
	if r.byUID[uid] == nil {
		r.byUID[uid] = &refused{items: map[string]refusal{}}
	}
	return r.byUID[uid]
}

// Waiting returns the items of a Node object that wait. The next of them is tried again after wait; 0: none waits.
func (r *Refusals) Waiting(uid types.UID, now time.Time) (items map[string]bool, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byUID[uid]
	if known == nil {
		return nil, 0
	}
	for item, refusal := range known.items {
		left := refusal.end.Sub(now)
		if left <= 0 {
			continue
		}
		if items == nil {
			items, wait = map[string]bool{}, left
		}
		items[item], wait = true, min(wait, left)
	}
	return items, wait
}

// NoteWholeRefusal notes that a change was refused as a whole, and returns how often that was so on the Node object.
func (r *Refusals) NoteWholeRefusal(uid types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.entry(uid)
	known.rounds++
	return known.rounds
}

// NoteRefused notes that the API server would not have an item, once more.
func (r *Refusals) NoteRefused(uid types.UID, item string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.entry(uid)
	times := known.items[item].times
	known.items[item] = refusal{times: times + 1, end: now.Add(PauseAfter(FreeFlaps+times, LongestPause))}
}

// NoteAccepted notes that the API server has taken an item.
func (r *Refusals) NoteAccepted(uid types.UID, item string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byUID[uid]; known != nil {
		delete(known.items, item)
	}
}

// Forget is called when a Node object is deleted.
func (r *Refusals) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byUID, uid)
}

// Clear forgets all refusals, for a change of the policy.
func (r *Refusals) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.byUID)
}
