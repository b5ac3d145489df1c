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
	counted, away := 0, 0
	for _, one := range []struct {
		node *node
		by   int
	}{{before, -1}, {after, 1}} {
		if one.node != nil && one.node.counts {
			counted += one.by
			if one.node.away {
				away += one.by
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes.Change(counted, away, now)
}

func (o *outage) until(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes.Until(now)
}
