package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

const (
	// watchTimeout is the TimeoutSeconds of a watch. The API server sends a bookmark two seconds before that, from which the
	// next watch resumes. A watch that ends before its bookmark resumes from an old version, which other objects of the same
	// resource soon push out of the API server's watch cache: then everything is listed again.
	watchTimeout = 48 * time.Second
	// watchSilence is after how long without any event the client ends a watch, which then may have stalled. An API server ends a
	// watch that resumes long before that; on one that streams it sends a bookmark once a minute, if anything changed.
	watchSilence = 70 * time.Second
	// listTimeout is longer than an API server works on any list (--request-timeout, one minute).
	listTimeout = 2 * time.Minute
)

// Resource is a typed client of one resource, as client-go has it.
type Resource[List runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (List, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// ListWatch is how every informer of nodekeep lists and watches: its watches always resume from a recent version, and one
// that stalls, which gives no error, is replaced after 70 seconds. A watch that first streams all objects takes as long as
// they take to arrive. received is called for each answer to a list and each event, bookmarks included; nil is allowed.
func ListWatch[List runtime.Object](client any, of Resource[List], labelSelector string, received func()) cache.ListerWatcher {
	if received == nil {
		received = func() {}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			options.LabelSelector = labelSelector
			list, err := of.List(ctx, options)
			if err != nil {
				return nil, err
			}
			received()
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = labelSelector
			if !ptr.Deref(options.SendInitialEvents, false) {
				options.TimeoutSeconds = ptr.To(int64(watchTimeout.Seconds()))
			}
			return watchUntilSilent(ctx, options, of.Watch, received)
		},
	}, client)
}

// liveWatch passes the events of a watch on, and ends when none has arrived for watchSilence.
type liveWatch struct {
	from     watch.Interface
	received func()
	silence  *time.Timer
	events   chan watch.Event
	stopped  chan struct{}
	stop     sync.Once
}

// watchUntilSilent starts a watch. If the API server does not even accept it in time, the result is a watch that has ended: a
// reflector resumes after that, and would list everything again after an error.
func watchUntilSilent(ctx context.Context, options metav1.ListOptions, start cache.WatchFuncWithContext, received func()) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	var silent atomic.Bool
	w := &liveWatch{received: received, events: make(chan watch.Event), stopped: make(chan struct{})}
	w.silence = time.AfterFunc(watchSilence, func() { silent.Store(true); cancel() })
	from, err := start(ctx, options)
	switch {
	case err != nil && silent.Load():
		return watch.NewEmptyWatch(), nil
	case err != nil:
		w.silence.Stop()
		cancel()
		return nil, err
	}
	w.from = from
	go func() {
		defer cancel()
		w.forward(ctx.Done())
	}()
	return w, nil
}

func (w *liveWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *liveWatch) Stop() { w.stop.Do(func() { close(w.stopped) }) }

// forward returns when the watch ends, is stopped, or is silent. Only Stop drops an event, and its caller wants none.
func (w *liveWatch) forward(silent <-chan struct{}) {
	defer close(w.events)
	defer w.from.Stop()
	defer w.silence.Stop()
	for {
		select {
		case event, more := <-w.from.ResultChan():
			if !more {
				return
			}
			if event.Type == watch.Error && isClosed(silent) {
				return // it says that the request was canceled; a reflector would list everything again
			}
			w.silence.Stop() // the time that the reader takes is not the API server's
			if event.Type != watch.Error {
				w.received()
			}
			select {
			case w.events <- event:
			case <-w.stopped:
				return
			}
			w.silence.Reset(watchSilence)
		case <-silent:
			return
		case <-w.stopped:
			return
		}
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
