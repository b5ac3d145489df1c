package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"
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
func (m *Memory) Get(node string) (Entry, error) { return m.get(node, inMemory) }

// GetLive is the record of a Node, whole. The error is that of Get.
func (m *Memory) GetLive(_ context.Context, node string) (Entry, error) { return m.get(node, whole) }

func (m *Memory) get(node string, read reading) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, found := m.data[Name(node)]
	if !found {
		return Entry{}, fmt.Errorf("read record of node %q: %w", node, ErrNotFound)
	}
	record, err := entry.decode(read)
	record, err = record.of(node, err)
	return Entry{Record: record, Version: entry.version}, err
}

// Put writes a record over the one with the version that was read, or creates it where version is empty.
func (m *Memory) Put(_ context.Context, record Record, version string) (Entry, error) {
	written, err := encode(record)
	if err != nil {
		return Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data[Name(record.Node)].version != version {
		return Entry{}, fmt.Errorf("put record of node %q: %w", record.Node, ErrConflict)
	}
	return Entry{Record: record.versioned(), Version: m.put(record.Node, written)}, nil
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
		if record, err := entry.decode(inMemory); err == nil {
			nodes = append(nodes, record.Node)
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
