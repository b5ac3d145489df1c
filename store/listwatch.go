package store

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

const (
	// watchTimeout is the TimeoutSeconds of a watch. The API server sends a bookmark two seconds before that, from which the next watch
	// resumes. A watch that ends before its bookmark resumes from an old version. Other objects of the same resource soon push that version
	// out of the API server's watch cache. Then everything is listed again.
	watchTimeout = 48 * time.Second
	// watchSilence is after how long without any event the client ends a watch, because it may have stalled. An API server ends a watch
	// that resumes long before that. On a watch that streams, it sends a bookmark once a minute, if anything changed.
	watchSilence = 70 * time.Second
	// refusedPause is the shortest pause before another call to an API server that refuses connections. The longest is twice as long.
	refusedPause = 500 * time.Millisecond
	// listTimeout is longer than an API server works on any list (--request-timeout, one minute).
	listTimeout = 2 * time.Minute
)

// Resource is a typed client of one resource, as client-go has it.
type Resource[List runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (List, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// ListWatch returns how every informer of nodekeep lists and watches. Its watches always resume from a recent version. A watch that stalls,
// which gives no error, is replaced after 70 seconds. A watch that first streams all objects takes as long as they take to arrive.
//
// If an API server refuses connections, a watch that resumes retries every second. The backoff of client-go itself grows to a minute, and
// other clients' writes are unknown until then. The link receives all events; nil is allowed.
func ListWatch[List runtime.Object](client any, resource Resource[List], labelSelector string, link *Link) cache.ListerWatcher {
	if link == nil {
		link = &Link{}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			options.LabelSelector = labelSelector
			list, err := resource.List(ctx, options)
			if err != nil {
				return nil, err
			}
			link.received()
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = labelSelector
			if !ptr.Deref(options.SendInitialEvents, false) {
				options.TimeoutSeconds = ptr.To(int64(watchTimeout.Seconds()))
			}
			return watchUntilSilent(ctx, options, resource.Watch, link)
		},
	}, client)
}

// Link is an informer's last contact with the API server. The zero value had none.
type Link struct {
	last atomic.Int64 // when the list or the watch last brought something, in nanoseconds
	open atomic.Pointer[liveWatch]
}

// Progress returns when the list or the watch last brought something: an event, or a bookmark. That a watch is accepted is none. Without
// a watch that is open, and has brought what there was before, it is the zero time.
func (l *Link) Progress() time.Time {
	last := l.last.Load()
	if last == 0 || l.open.Load() == nil {
		return time.Time{}
	}
	return time.Unix(0, last)
}

func (l *Link) received() { l.last.Store(time.Now().UnixNano()) }

// lost is called for each watch that ends; the next one may be open already.
func (l *Link) lost(w *liveWatch) { l.open.CompareAndSwap(w, nil) }

// liveWatch passes the events of a watch on, and ends when none has arrived for watchSilence.
type liveWatch struct {
	from    watch.Interface
	link    *Link
	streams bool // all objects first, up to a bookmark that says so
	silence *time.Timer
	events  chan watch.Event
	stop    context.CancelFunc
}

// watchUntilSilent starts a watch. If the API server does not accept it in time, the result is a watch that has already ended. A reflector
// resumes after that; after an error it would list everything again.
func watchUntilSilent(ctx context.Context, options metav1.ListOptions, start cache.WatchFuncWithContext, link *Link) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	var silent atomic.Bool
	w := &liveWatch{link: link, streams: ptr.Deref(options.SendInitialEvents, false), events: make(chan watch.Event), stop: cancel}
	w.silence = time.AfterFunc(watchSilence, func() { silent.Store(true); cancel() })
	from, err := start(ctx, options)
	for err != nil && !w.streams && utilnet.IsConnectionRefused(err) && ctx.Err() == nil {
		select {
		case <-time.After(wait.Jitter(refusedPause, 1)):
		case <-ctx.Done():
		}
		from, err = start(ctx, options)
	}
	switch {
	case err != nil && silent.Load():
		return watch.NewEmptyWatch(), nil
	case err != nil:
		w.silence.Stop()
		cancel()
		return nil, err
	}
	w.from = from
	if !w.streams {
		link.open.Store(w)
	}
	go w.forward(ctx)
	return w, nil
}

func (w *liveWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *liveWatch) Stop() { w.stop() }

// forward returns when the watch ends. It also returns when the watch is stopped or silent: then ctx is done. An event that is dropped then
// comes again on the next watch, which resumes before it.
func (w *liveWatch) forward(ctx context.Context) {
	defer w.stop()
	defer close(w.events)
	defer w.link.lost(w)
	defer w.from.Stop()
	defer w.silence.Stop()
	for {
		select {
		case event, ok := <-w.from.ResultChan():
			if !ok {
				return
			}
			if event.Type == watch.Error && ctx.Err() != nil {
				return // it says that the request was canceled; a reflector would list everything again
			}
			w.silence.Stop() // the time that the reader takes is not the API server's
			if event.Type != watch.Error {
				w.link.received()
			}
			select {
			case w.events <- event:
			case <-ctx.Done():
				return
			}
			if w.streams && isEndOfStream(event) {
				w.link.open.Store(w)
			}
			w.silence.Reset(watchSilence)
		case <-ctx.Done():
			return
		}
	}
}

// isEndOfStream reports whether a watch that streams all objects has brought them all.
func isEndOfStream(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
