package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Memory is a store in memory: it keeps the promises of [store.ConfigMaps], and [Contract] holds for both. The zero value is empty and ready.
type Memory struct {
	mu      sync.Mutex
	version int
	data    map[string]stored // by name of the ConfigMap
}

// stored is a ConfigMap that does not change any more, and the Node of its record, if that is readable.
type stored struct {
	*corev1.ConfigMap
	node string
	ok   bool
}

// Get returns the record of a Node, without its history. The error is [store.ErrNotFound] or [store.ErrUnreadable].
func (m *Memory) Get(node string) (store.Entry, error) {
	entry, err := m.GetFromAPI(context.Background(), node)
	entry.Record = withoutHistory(entry.Record)
	return entry, err
}

func withoutHistory(r record.Record) record.Record {
	r.History, r.HistoryOmitted = nil, r.HistoryOmitted || len(r.History) > 0
	if r.Quarantined != nil {
		old := withoutHistory(*r.Quarantined)
		r.Quarantined = &old
	}
	r.Earlier = slices.Clone(r.Earlier)
	for i, earlier := range r.Earlier {
		r.Earlier[i] = withoutHistory(earlier)
	}
	return r
}

// GetFromAPI returns the record of a Node, whole. The error is that of Get.
func (m *Memory) GetFromAPI(_ context.Context, node string) (store.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cm, found := m.data[store.Name(node)]
	if !found {
		return store.Entry{}, fmt.Errorf("read record of node %q: %w", node, store.ErrNotFound)
	}
	listed := store.ListedOf(cm.ConfigMap)
	return listed.Entry, listed.Err
}

// Put writes a record over the one with the version that was read, or creates it where version is empty.
func (m *Memory) Put(_ context.Context, r record.Record, version string) (store.Entry, error) {
	data, err := store.DataOf(r)
	if err != nil {
		return store.Entry{}, err
	}
	written := &corev1.ConfigMap{Data: data}
	written.Name = store.Name(r.Node)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versionOf(r.Node) != version {
		return store.Entry{}, fmt.Errorf("put record of node %q: %w", r.Node, store.ErrConflict)
	}
	return store.Entry{Record: r, Version: m.put(written)}, nil
}

// Delete removes the record of a Node if it is of the version that was read.
func (m *Memory) Delete(_ context.Context, node, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if version == "" || m.versionOf(node) != version {
		return fmt.Errorf("delete record of node %q: %w", node, store.ErrConflict)
	}
	delete(m.data, store.Name(node))
	return nil
}

// ListByMachine returns every readable record: [record.Predecessor] chooses.
func (m *Memory) ListByMachine(record.Machine) (records []record.Record, err error) {
	for _, node := range m.NodeNames() {
		if entry, err := m.Get(node); err == nil {
			records = append(records, entry.Record)
		}
	}
	return records, nil
}

// NodeNames lists the names of all Nodes that there is a readable record of.
func (m *Memory) NodeNames() (nodes []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, cm := range m.data {
		if cm.ok {
			nodes = append(nodes, cm.node)
		}
	}
	return nodes
}

// Tamper replaces what is stored for a Node by any bytes, as a client with access to ConfigMaps could.
func (m *Memory) Tamper(node string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cm := &corev1.ConfigMap{Data: map[string]string{store.DataKey: string(data)}}
	cm.Name = store.Name(node)
	m.put(cm)
}

// Remove deletes the record of a Node, as a client with access to ConfigMaps could.
func (m *Memory) Remove(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, store.Name(node))
}

func (m *Memory) versionOf(node string) string {
	if cm, found := m.data[store.Name(node)]; found {
		return cm.ResourceVersion
	}
	return ""
}

func (m *Memory) put(cm *corev1.ConfigMap) (version string) {
	m.version++
	cm.ResourceVersion = strconv.Itoa(m.version)
	if m.data == nil {
		m.data = map[string]stored{}
	}
	listed := store.ListedOf(cm)
	m.data[cm.Name] = stored{ConfigMap: cm, node: listed.Node, ok: listed.Err == nil}
	return cm.ResourceVersion
}
