package store_test

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

type apiWatch struct {
	watch.Interface
	left atomic.Int64 // how many events still reach the watcher
}

// Watch brings what the selector selects; an object that is no longer selected is deleted for the watcher.
func (a *api) Watch(gvr schema.GroupVersionResource, ns string, options ...metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expired {
		a.expired = false
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	selector, err := labels.Parse(options[0].LabelSelector)
	if err != nil {
		return nil, err
	}
	list, err := a.List(gvr, corev1.SchemeGroupVersion.WithKind("ConfigMap"), ns)
	if err != nil {
		return nil, err
	}
	selected := map[string]bool{}
	for _, cm := range list.(*corev1.ConfigMapList).Items {
		selected[cm.Name] = selector.Matches(labels.Set(cm.Labels))
	}
	inner, err := a.ObjectTracker.Watch(gvr, ns, options...)
	if err != nil {
		return nil, err
	}
	w := &apiWatch{Interface: inner}
	w.left.Store(math.MaxInt64)
	a.watches = append(a.watches, w)
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		a.late.RLock()
		defer a.late.RUnlock()
		if event.Type == watch.Bookmark {
			return event, true
		}
		cm := event.Object.(*corev1.ConfigMap)
		ok, found := selected[cm.Name], selector.Matches(labels.Set(cm.Labels)) && event.Type != watch.Deleted
		selected[cm.Name] = found
		if ok && !found {
			event.Type = watch.Deleted
			a.mu.Lock()
			defer a.mu.Unlock()
			if version, removed := a.removed[cm.Name+"@"+cm.ResourceVersion]; removed {
				cm.ResourceVersion = version
			}
		}
		return event, (ok || found) && w.left.Add(-1) >= 0
	}), nil
}

// watched reports whether anybody watches.
func (a *api) watched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.watches) > 0
}

// holdWatches makes every watch late until release is called.
func (a *api) holdWatches(t *testing.T) (release func()) {
	a.late.Lock()
	release = sync.OnceFunc(a.late.Unlock)
	t.Cleanup(release)
	return release
}

// loseEventsAfter keeps all but the next few events from reaching the watchers.
func (a *api) loseEventsAfter(sample int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watches {
		w.left.Store(sample)
	}
}

// endWatches ends every watch, as an API server does from time to time.
func (a *api) endWatches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watches {
		w.Stop()
	}
	a.watches = nil
}

// breakWatches ends every watch and has the next one start over with a list.
func (a *api) breakWatches() {
	a.mu.Lock()
	a.expired = true
	a.mu.Unlock()
	a.endWatches()
}

// bookmark shows every watcher that nothing has happened.
func (a *api) bookmark() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watches {
		w.Interface.(*watch.RaceFreeFakeWatcher).Action(watch.Bookmark, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(a.last)},
		})
	}
}
