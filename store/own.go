package store

import corev1 "k8s.io/api/core/v1"

// wrote remembers a write of our own until the watch brings it or something newer.
func (c *recordCache) wrote(cm *corev1.ConfigMap) {
	object, _ := compact(cm)
	entry := object.(*cached)
	c.mu.Lock()
	defer c.mu.Unlock()
	if inStore, found := c.fromWatch(entry.name); found && !newer(entry, inStore) {
		return
	}
	c.own[entry.name] = entry
}

// gone forgets a write of our own that the API server no longer has. A removal of our own stays: the watch may still bring
// what was removed.
func (c *recordCache) gone(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own, written := c.own[name]; written && !own.removed {
		delete(c.own, name)
	}
}

// removed remembers a removal of our own, of that version, until the watch brings it or something newer.
func (c *recordCache) removed(name, version string) {
	removal := &cached{name: name, namespace: c.namespace, version: version, removed: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	inStore, found := c.fromWatch(name)
	own, written := c.own[name]
	switch {
	case found && removal.supersededBy(inStore), written && removal.supersededBy(own): // it was made again meanwhile
	case !found && !written: // the watch was faster
	default:
		c.own[name] = removal
	}
}

func (c *recordCache) fromWatch(name string) (*cached, bool) {
	object, _, _ := c.informer.GetStore().GetByKey(c.namespace + "/" + name)
	entry, ok := object.(*cached)
	return entry, ok
}
