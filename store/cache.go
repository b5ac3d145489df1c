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

// recordCache is an informer that holds decoded records, without the other content of their ConfigMaps. On top of it are this process's own
// writes and removals that the watch has not delivered yet. So a process always sees its own changes.
type recordCache struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	namespace    string
	logger       *slog.Logger
	totals       totals

	machines machines

	// link shows whether the watch is alive. A watch can stall without an error. A cache that does not notice looks current while it is
	// stale.
	link Link

	mu      sync.RWMutex
	written map[string]*cached
	last    *cached // the newest that the watch has brought, also if it was a removal
}

func newRecordCache(client kubernetes.Interface, namespace string, logger *slog.Logger) (*recordCache, error) {
	c := &recordCache{namespace: namespace, logger: logger, totals: totals{sizes: map[int]int{}}, written: map[string]*cached{}}
	records := ListWatch(client, client.CoreV1().ConfigMaps(namespace), labels.Set{RecordLabel: "true"}.String(), &c.link)
	c.informer = cache.NewSharedIndexInformer(records, &corev1.ConfigMap{}, 0, cache.Indexers{})
	if err := c.informer.SetTransform(compact); err != nil {
		return nil, fmt.Errorf("set up the cache of records: %w", err)
	}
	var err error
	c.registration, err = c.handle(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(first any) { c.totals.replaced(nil, first); c.judge(first) },
		UpdateFunc: func(oldObject, current any) { c.totals.replaced(oldObject, current); c.judge(current) },
		DeleteFunc: func(last any) { c.totals.replaced(last, nil); c.forget(last) },
	})
	return c, err
}

// handle registers a handler. The process continues after an event whose handler panicked.
func (c *recordCache) handle(handler cache.ResourceEventHandlerFuncs) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := c.informer.AddEventHandler(contain.Handlers(handler, func(object any, err error) {
		key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		c.logger.Error("event of a record panicked; please report this with the stack", "configmap", key, "error", err)
	}))
	if err != nil {
		return nil, fmt.Errorf("watch records: %w", err)
	}
	return registration, nil
}

func (c *recordCache) get(name string) (*cached, bool) {
	c.mu.RLock()
	cached, written := c.written[name]
	c.mu.RUnlock()
	entry, found := c.fromWatch(name) // second: what it has is never older than what was dropped from own
	switch {
	case !written:
		return entry, found
	case found && cached.supersededBy(entry): // the handler of that event is yet to run
		c.drop(cached)
		return entry, true
	default:
		return cached, !cached.removed
	}
}

// drop forgets a write or removal of our own that the watch has superseded. What was read once as newer must not give way to it again.
func (c *recordCache) drop(entry *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written[entry.name] == entry {
		delete(c.written, entry.name)
	}
}

func (c *recordCache) fromWatch(name string) (*cached, bool) {
	object, _, _ := c.informer.GetStore().GetByKey(c.namespace + "/" + name)
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
	if c.last == nil || newer(entry, c.last) {
		c.last = entry
	}
	if cached, written := c.written[entry.name]; written && cached.supersededBy(entry) {
		delete(c.written, entry.name)
	}
	return entry, true
}

// forget runs for every deleted record. If the watch missed the deletion, the next list shows it. A removal of our own then no longer needs
// to be remembered.
func (c *recordCache) forget(last any) {
	entry, ok := c.seen(last)
	if _, missed := last.(cache.DeletedFinalStateUnknown); !ok || !missed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached, written := c.written[entry.name]; written && cached.removed {
		delete(c.written, entry.name)
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

// OnChange calls changed with the Node's name for each existing record, and for each added, changed or removed record. Before that, it calls
// lost if the record was removed, or replaced by an older one or by a client's. It returns once the handler is registered. Neither may
// block.
func (c *ConfigMaps) OnChange(changed, lost func(node string)) error {
	notify := func(object any) {
		if entry, ok := c.cache.seen(object); ok { // first: else changed could still get what this process itself wrote
			changed(entry.node())
		}
	}
	_, err := c.cache.handle(cache.ResourceEventHandlerFuncs{
		AddFunc: notify,
		UpdateFunc: func(oldObject, current any) {
			// The content that replaced a readable record may not name its Node; a hashed name does not either.
			if oldEntry, ok := entryOf(oldObject); ok {
				if newEntry, ok := entryOf(current); ok && oldEntry.node() != newEntry.node() {
					changed(oldEntry.node())
				} else if ok && oldEntry.unreadable() == nil && newEntry.unreadable() == nil && newEntry.record.record().Lost(oldEntry.record.record()) {
					lost(newEntry.node())
				}
			}
			notify(current)
		},
		DeleteFunc: func(last any) {
			if entry, ok := entryOf(last); ok {
				lost(entry.node())
			}
			notify(last)
		},
	})
	return err
}

// NodeNames lists the names of all Nodes that there is a record of, from memory.
func (c *ConfigMaps) NodeNames() []string {
	objects := c.cache.informer.GetStore().List()
	nodes := make([]string, 0, len(objects))
	for _, object := range objects {
		if entry, ok := object.(*cached); ok {
			nodes = append(nodes, entry.node())
		}
	}
	return nodes
}

// wrote remembers a write of our own until the watch brings it or something newer.
func (c *recordCache) wrote(cm *corev1.ConfigMap) {
	entry := compactWith(document.decode, cm)
	c.mu.Lock()
	defer c.mu.Unlock()
	inStore, found := c.fromWatch(entry.name)
	cached, written := c.written[entry.name]
	switch {
	case found && !newer(entry, inStore):
	case written && newer(cached, entry): // the answers came in another order
	case !found && c.last != nil && (c.last.version == entry.version || newer(c.last, entry)): // the watch has brought it and its end
	default:
		c.written[entry.name] = entry
	}
}

// gone forgets a write of our own that the API server no longer has. A removal of our own stays: the watch may still bring
// what was removed.
func (c *recordCache) gone(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached, written := c.written[name]; written && !cached.removed {
		delete(c.written, name)
	}
}

// removed remembers a removal of our own, of that version, until the watch brings it or something newer.
func (c *recordCache) removed(name, version string) {
	removal := &cached{name: name, namespace: c.namespace, version: version, removed: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	inStore, found := c.fromWatch(name)
	cached, written := c.written[name]
	switch {
	case found && removal.supersededBy(inStore), written && removal.supersededBy(cached): // it was made again meanwhile
	case !found && !written: // the watch was faster
	default:
		c.written[name] = removal
	}
}
