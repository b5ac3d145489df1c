package controller

import (
	"sync"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// outage counts the Nodes that are away.
type outage struct {
	mu    sync.Mutex
	nodes verify.Outage
}

// changed counts an event of a Node; began is true when an outage begins with it.
func (o *outage) changed(before, after *node, now time.Time) (began bool) {
	counts, away := 0, 0
	for n, by := range counted(before, after) {
		if n.counts {
			counts += by
		}
		if n.counts && n.away {
			away += by
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes.Change(counts, away, now)
}

func (o *outage) until(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes.Until(now)
}
