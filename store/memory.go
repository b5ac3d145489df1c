package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"nodekeep.dev/nodekeep/record"
)

// Memory is a store in memory, for tests: it keeps the same promises as [ConfigMaps], and the same contract test
// holds for both. The zero value is empty and ready.
type Memory struct {
	mu      sync.Mutex
	version int
	data    map[string]memoryEntry
}

type memoryEntry struct {
	document
	version string
}

// Get is the record of a Node, without its history. The error is [ErrNotFound] or [ErrUnreadable].
func (m *Memory) Get(node string) (Entry, error) { return m.get(node, withoutHistory) }

// GetLive is the record of a Node, whole. The error is that of Get.
func (m *Memory) GetLive(_ context.Context, node string) (Entry, error) {
	return m.get(node, func(r record.Record) record.Record { return r })
}

func (m *Memory) get(node string, read func(record.Record) record.Record) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, found := m.data[Name(node)]
	if !found {
		return Entry{}, fmt.Errorf("read record of node %q: %w", node, ErrNotFound)
	}
	r, err := entry.decode()
	r, err = of(node, read(r), err)
	return Entry{Record: r, Version: entry.version, Accepted: entry.side(r)}, err
}

// Put writes a record over the one with the version that was read, or creates it where version is empty.
func (m *Memory) Put(_ context.Context, r record.Record, version string) (Entry, error) {
	written, err := encode(r)
	if err != nil {
		return Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data[Name(r.Node)].version != version {
		return Entry{}, fmt.Errorf("put record of node %q: %w", r.Node, ErrConflict)
	}
	return Entry{Record: r, Version: m.put(r.Node, written)}, nil
}

// Delete removes the record of a Node if it is of the version that was read.
func (m *Memory) Delete(_ context.Context, node, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if version == "" || m.data[Name(node)].version != version {
		return fmt.Errorf("delete record of node %q: %w", node, ErrConflict)
	}
	delete(m.data, Name(node))
	return nil
}

// Nodes lists the names of all Nodes that there is a readable record of.
func (m *Memory) Nodes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var nodes []string
	for _, entry := range m.data {
		if r, err := entry.decode(); err == nil {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes
}

// Tamper replaces what is stored for a Node by any bytes, as somebody with access to ConfigMaps could.
func (m *Memory) Tamper(node string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(node, document{record: string(data)})
}

// Remove forgets the record of a Node, as somebody with access to ConfigMaps could.
func (m *Memory) Remove(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, Name(node))
}

func (m *Memory) put(node string, written document) (version string) {
	m.version++
	version = strconv.Itoa(m.version)
	if m.data == nil {
		m.data = map[string]memoryEntry{}
	}
	m.data[Name(node)] = memoryEntry{document: written, version: version}
	return version
}
