package store

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// progress knows when the API server was last heard of. A watch can stall without an error, and a cache that does not
// know so looks current while it is not.
type progress struct{ unixNano atomic.Int64 }

func (p *progress) last() time.Time { return time.Unix(0, p.unixNano.Load()) }

// heard notes an answer of the API server, if it was one.
func (p *progress) heard(err error) {
	if err == nil {
		p.unixNano.Store(time.Now().UnixNano())
	}
}

// listen notes every event of a watch, bookmarks included.
func (p *progress) listen(w watch.Interface) watch.Interface {
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		if event.Type != watch.Error {
			p.heard(nil)
		}
		return event, true
	})
}
