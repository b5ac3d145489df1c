package store

import (
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/contain"
)

// recordCache is an informer that holds decoded records and drops the rest of their ConfigMaps, and over it the
// writes and removals of our own that the watch has not brought yet, so that a process always sees what it did.
type recordCache struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	namespace    string
	logger       *slog.Logger
	progress     *progress
	totals       totals

	mu  sync.RWMutex
	own map[string]*cached
}

func newRecordCache(client kubernetes.Interface, namespace string, logger *slog.Logger) (*recordCache, error) {
	c := &recordCache{namespace: namespace, logger: logger, progress: &progress{}, totals: totals{sizes: map[int]int{}}, own: map[string]*cached{}}
	records := ListWatch(client, client.CoreV1().ConfigMaps(namespace), labels.Set{RecordLabel: "true"}.String(), c.progress.received)
	c.informer = cache.NewSharedIndexInformer(records, &corev1.ConfigMap{}, 0, cache.Indexers{})
	if err := c.informer.SetTransform(compact); err != nil {
		return nil, fmt.Errorf("set up the cache of records: %w", err)
	}
	var err error
	c.registration, err = c.informer.AddEventHandler(contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(first any) { c.totals.replaced(nil, first); c.judge(first) },
		UpdateFunc: func(before, current any) { c.totals.replaced(before, current); c.judge(current) },
		DeleteFunc: func(last any) { c.totals.replaced(last, nil); c.forget(last) },
	}, c.reportPanic))
	if err != nil {
		return nil, fmt.Errorf("set up the cache of records: %w", err)
	}
	return c, nil
}

func (c *recordCache) get(name string) (*cached, bool) {
	c.mu.RLock()
	own, written := c.own[name]
	c.mu.RUnlock()
	if written {
		return own, !own.removed
	}
	object, found, err := c.informer.GetStore().GetByKey(c.namespace + "/" + name)
	if err != nil || !found {
		return nil, false
	}
	entry, ok := object.(*cached)
	return entry, ok
}

// seen is called for every event of the watch.
func (c *recordCache) seen(object any) (entry *cached, ok bool) {
	if entry, ok = entryOf(object); !ok {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if own, written := c.own[entry.name]; written && own.supersededBy(entry) {
		delete(c.own, entry.name)
	}
	return entry, true
}

// forget is called for every record that went. Of one whose end the watch has missed a list shows that it is gone; a
// removal of our own need not be remembered any longer then.
func (c *recordCache) forget(last any) {
	entry, ok := c.seen(last)
	if _, missed := last.(cache.DeletedFinalStateUnknown); !ok || !missed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if own, written := c.own[entry.name]; written && own.removed {
		delete(c.own, entry.name)
	}
}

// judge is called for every record that came or changed, and says once what is wrong with it.
func (c *recordCache) judge(object any) {
	if entry, ok := c.seen(object); ok {
		if err := entry.unreadable(); err != nil {
			c.logger.Error("record cannot be read; it is left as it is and nothing is restored from it", "configmap", entry.name, "error", err)
		}
	}
}

// reportPanic is called for an event that could not be taken in; the process goes on.
func (c *recordCache) reportPanic(object any, err error) {
	key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	c.logger.Error("event of a record panicked; please report this with the stack", "configmap", key, "error", err)
}

func (c *recordCache) onChange(changed func(node string)) error {
	notify := func(object any) {
		if entry, ok := entryOf(object); ok {
			changed(entry.node())
		}
	}
	_, err := c.informer.AddEventHandler(contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc: notify,
		UpdateFunc: func(before, current any) {
			// What took the place of a readable record may not tell whose it was; a hashed name does not either.
			if was, ok := entryOf(before); ok {
				if is, ok := entryOf(current); ok && was.node() != is.node() {
					changed(was.node())
				}
			}
			notify(current)
		},
		DeleteFunc: notify,
	}, c.reportPanic))
	if err != nil {
		return fmt.Errorf("watch records: %w", err)
	}
	return nil
}

func (c *recordCache) nodes() []string {
	objects := c.informer.GetStore().List()
	nodes := make([]string, 0, len(objects))
	for _, object := range objects {
		if entry, ok := object.(*cached); ok {
			nodes = append(nodes, entry.node())
		}
	}
	return nodes
}
