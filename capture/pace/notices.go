package pace

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxNotices bounds what is remembered of one Node object. A kubelet's reports can make ever new values.
const maxNotices = 200

// Notices has something reported of a Node object once. Otherwise each reconcile of the Node would report it again. Any goroutine may call its
// methods.
type Notices struct {
	mu       sync.Mutex
	byObject map[types.UID]map[string]bool
}

// NewNotices knows of nothing that was reported.
func NewNotices() *Notices { return &Notices{byObject: map[types.UID]map[string]bool{}} }

// First reports whether something has not been reported of the Node object yet. From now on it has.
func (o *Notices) First(object types.UID, subject string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.byObject[object]
	if known[subject] || len(known) >= maxNotices {
		return false
	}
	if known == nil {
		known = map[string]bool{}
		o.byObject[object] = known
	}
	known[subject] = true
	return true
}

// Reset has something count as not reported.
func (o *Notices) Reset(object types.UID, subject string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byObject[object], subject)
}

// Forget is called when a Node object is deleted.
func (o *Notices) Forget(object types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byObject, object)
}

// Clear has everything count as not reported, for a change of the policy.
func (o *Notices) Clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.byObject)
}
