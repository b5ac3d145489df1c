package store

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// watchFor is how long one watch lasts before the next takes its place, from where it ended. On a quiet cluster nothing is
// heard on a watch for two minutes (measured; bookmarks come only when there is something to tell), so a watch that is
// quiet looks like one that has stalled. A new one is answered at once or not at all.
const watchFor = 50 * time.Second

// listen notes every event of a watch, bookmarks included, and ends it after watchFor. One that first streams what exists
// is given all the time it needs for that.
func (p *progress) listen(w watch.Interface, streams bool) watch.Interface {
	l := &listened{progress: p, from: w, events: make(chan watch.Event), stopped: make(chan struct{})}
	var ends <-chan time.Time
	if !streams {
		ends = time.After(watchFor)
	}
	go l.forward(ends)
	return l
}

// listened is a watch whose events are passed on as they are.
type listened struct {
	progress *progress
	from     watch.Interface
	events   chan watch.Event
	stopped  chan struct{}
	stop     sync.Once
}

func (l *listened) ResultChan() <-chan watch.Event { return l.events }

func (l *listened) Stop() { l.stop.Do(func() { close(l.stopped) }) }

// forward passes events on until the watch ends, is stopped, or its time is over. No event that was taken is dropped but
// by Stop, whose caller wants none.
func (l *listened) forward(ends <-chan time.Time) {
	defer close(l.events)
	defer l.from.Stop()
	for {
		select {
		case event, more := <-l.from.ResultChan():
			if !more {
				return
			}
			if event.Type != watch.Error {
				l.progress.heard(nil)
			}
			if ends == nil && endsInitialEvents(event) {
				ends = time.After(watchFor)
			}
			select {
			case l.events <- event:
			case <-l.stopped:
				return
			}
		case <-ends:
			return
		case <-l.stopped:
			return
		}
	}
}

func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
