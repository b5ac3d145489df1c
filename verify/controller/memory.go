package controller

import (
	"sync"
	"time"
)

// memory is what this process itself observed of Nodes that have the taint, by uid. Nothing that others write changes it, and it is lost with the process.
type memory struct {
	mu    sync.Mutex
	nodes map[string]remembered
}

type remembered struct {
	held        time.Time // since when the taint was observed without a break
	started     time.Time // when a worker Pod was last started
	interrupted bool      // the taint was removed or added since worker Pods were last seen to be gone
	opened      bool      // the taint was added to a Node that took workloads; see [verify.DoNote]
	garbage     bool      // a bad report was logged
}

func (m *memory) of(uid string) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[uid]
}

func (m *memory) change(uid string, change func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.nodes[uid]
	if change(&one); one == (remembered{}) {
		delete(m.nodes, uid)
		return
	}
	m.nodes[uid] = one
}

// hold notes that the taint was observed.
func (m *memory) hold(uid string, now time.Time) {
	m.change(uid, func(one *remembered) {
		if one.held.IsZero() {
			one.held = now
		}
	})
}

// interrupt notes that the taint was removed, or added; opened: to a Node that took workloads.
func (m *memory) interrupt(uid string, opened bool) {
	m.change(uid, func(one *remembered) {
		one.interrupted, one.held = true, time.Time{}
		one.opened = one.opened || opened
	})
}

// forget is called when the Node object is deleted.
func (m *memory) forget(uid string) { m.change(uid, func(one *remembered) { *one = remembered{} }) }

// settled gets a Node without worker Pods: none from before an interruption can count any more.
func (m *memory) settled(uid string, held bool) {
	m.change(uid, func(one *remembered) {
		if one.interrupted = false; !held {
			*one = remembered{opened: one.opened} // the watch may have brought the taint by now
		}
	})
}
