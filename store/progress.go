package store

import (
	"sync/atomic"
	"time"
)

// progress is when the list or the watch of records last brought something. A watch can stall without an error, and a cache that
// does not notice looks current while it is not. That a watch is accepted shows nothing: what counts is an event or a bookmark on it.
type progress struct{ unixNano atomic.Int64 }

func (p *progress) last() time.Time { return time.Unix(0, p.unixNano.Load()) }

func (p *progress) received() { p.unixNano.Store(time.Now().UnixNano()) }
