package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/record"
)

// maxOfOneIdentifier is how many records with one identifier are looked at: enough to see that it identifies no machine.
const maxOfOneIdentifier = 16

var errNoIndex = errors.New("records are not indexed by machine")

// machines is an index of records by the identifiers of their machines, and by the Node that they followed. A look at it takes the same time
// however many records share an identifier.
type machines struct {
	making sync.Mutex

	mu sync.RWMutex
	by map[string][]string // the ConfigMaps under each value; nil: there is no index
}

// replaced is called for every record that was added, changed or removed; nil is no record.
func (m *machines) replaced(oldObject, newObject any) {
	old, oldName := indexedAs(oldObject)
	now, name := indexedAs(newObject)
	if slices.Equal(old, now) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, value := range old {
		names := m.by[value]
		if i := slices.Index(names, oldName); i >= 0 {
			names = slices.Delete(names, i, i+1)
		}
		if m.by[value] = names; len(names) == 0 {
			delete(m.by, value)
		}
	}
	for _, value := range now {
		m.by[value] = append(m.by[value], name)
	}
}

// names names the ConfigMaps under a value, some of them where they are more than are looked at.
func (m *machines) names(value string) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	names := m.by[value]
	return slices.Clone(names[:min(len(names), maxOfOneIdentifier)])
}

// indexedAs returns what a record is found under.
func indexedAs(object any) (values []string, name string) {
	entry, ok := entryOf(object)
	if readable := ok && entry.unreadable() == nil; !readable {
		return nil, ""
	}
	values = entry.record.machine().Identifiers()
	if rest := entry.record.rest; rest != nil {
		if rest.Followed != "" {
			values = append(values, followedBy(rest.Followed))
		}
		for _, earlier := range rest.Earlier {
			values = append(values, earlier.Machine.Identifiers()...)
		}
	}
	return values, entry.name
}

func followedBy(node string) string { return "followed " + node }

// IndexMachines makes the index that [ConfigMaps.ListByMachine] needs, unless it exists. If the records are already in memory, it returns once
// all are in the index. That takes some tenths of a second for 100,000, so no request should call it.
func (c *ConfigMaps) IndexMachines() error {
	m := &c.cache.machines
	m.making.Lock()
	defer m.making.Unlock()
	if m.by != nil {
		return nil
	}
	m.mu.Lock()
	m.by = map[string][]string{}
	m.mu.Unlock()
	running := c.Synced()
	registration, err := c.cache.handle(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(first any) { m.replaced(nil, first) },
		UpdateFunc: m.replaced,
		DeleteFunc: func(last any) { m.replaced(last, nil) },
	})
	if err != nil {
		m.mu.Lock()
		m.by = nil
		m.mu.Unlock()
		return fmt.Errorf("index records by machine: %w", err)
	}
	for running && !registration.HasSynced() && !c.cache.informer.IsStopped() {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// ListByMachine returns, from memory, the records that share an identifier with the machine, or keep one of it. It adds the records that followed one
// of these. An error means that there is no index, so nothing is known; see [ConfigMaps.IndexMachines].
func (c *ConfigMaps) ListByMachine(m record.Machine) ([]record.Record, error) {
	c.cache.machines.mu.RLock()
	indexed := c.cache.machines.by != nil
	c.cache.machines.mu.RUnlock()
	if !indexed {
		return nil, errNoIndex
	}
	var records []record.Record
	known := map[string]bool{}
	values := m.Identifiers()
	for i := 0; i < len(values) && i < maxOfOneIdentifier; i++ {
		names := append(c.cache.machines.names(values[i]), c.cache.writtenAs(values[i])...)
		for _, name := range names[:min(len(names), 2*maxOfOneIdentifier)] {
			entry, found := c.cache.get(name)
			if !found || known[name] || entry.unreadable() != nil {
				continue
			}
			known[name] = true
			r := entry.record.record()
			records = append(records, r)
			values = append(values, followedBy(r.Node))
		}
	}
	return records, nil
}

// writtenAs names our own writes that belong under a value of the index. The watch has not delivered them yet.
func (c *recordCache) writtenAs(value string) (names []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, cached := range c.written {
		if values, _ := indexedAs(cached); slices.Contains(values, value) {
			names = append(names, name)
		}
	}
	return names
}
