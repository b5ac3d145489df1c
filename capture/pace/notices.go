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
	mu    sync.Mutex
	byUID map[types.UID]map[string]bool
}

// NewNotices knows of nothing that was reported.
func NewNotices() *Notices { return &Notices{byUID: map[types.UID]map[string]bool{}} }

// First reports whether something has not been reported of the Node object yet. From now on it has.
func (n *Notices) First(uid types.UID, subject string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.byUID[uid]
	if known[subject] || len(known) >= maxNotices {
		return false
	}
	if known == nil {
		known = map[string]bool{}
		n.byUID[uid] = known
	}
	known[subject] = true
	return true
}

// Reset has something count as not reported.
func (n *Notices) Reset(uid types.UID, subject string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byUID[uid], subject)
}

// Forget is called when a Node object is deleted.
func (n *Notices) Forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byUID, uid)
}

// Clear has everything count as not reported, for a change of the policy.
func (n *Notices) Clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.byUID)
}
