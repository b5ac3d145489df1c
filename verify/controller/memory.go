package controller

import (
	"strings"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// memory is what this process itself observed of Nodes that have the taint, by uid. Nothing that others write changes it, and it is lost with the process.
type memory struct {
	mu    sync.Mutex
	nodes map[string]remembered
}

type remembered struct {
	closedSince time.Time     // since when the taint was observed without a break
	started     time.Time     // when a worker Pod was last started
	answers     time.Time     // see [verify.Observed.Answers]
	hurried     time.Time     // see [verify.Observed.Hurried]
	worker      verify.OwnPod // the worker Pod that was created last since then; without a uid: it is being created
	skipped     string        // checks that this Pod leaves out
	opened      bool          // the taint was added to a Node that took workloads; see [verify.DoNote]
	garbage     bool          // a bad report was logged
	served      string        // see [verify.Observed.Served]
	waits       verify.Waits
	failing     time.Time // since when each step was refused
	refused     string    // see [verify.Observed.Refused]
	shown       time.Time // when the condition was written last
}

func (m *memory) get(uid string) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[uid]
}

func (m *memory) change(uid string, change func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.nodes[uid]
	if change(&entry); entry == (remembered{}) {
		delete(m.nodes, uid)
		return
	}
	m.nodes[uid] = entry
}

// hold notes that the taint was observed.
func (m *memory) hold(uid string, now time.Time) {
	m.change(uid, func(entry *remembered) {
		if entry.closedSince.IsZero() {
			entry.closedSince = now
		}
	})
}

// wait notes what a Node waits for.
func (m *memory) wait(uid string, cause verify.Cause, now time.Time) {
	m.change(uid, func(entry *remembered) {
		if !entry.closedSince.IsZero() && entry.waits.Cause != cause {
			entry.waits = verify.Waits{Cause: cause, Start: now}
		}
	})
}

// interrupt notes that the taint was removed, or added; opened: to a Node that took workloads. A worker Pod from before counts no more, nor one that
// is being created.
func (m *memory) interrupt(uid string, opened bool) {
	m.change(uid, func(entry *remembered) {
		entry.closedSince, entry.worker, entry.skipped, entry.waits, entry.failing, entry.refused, entry.shown = time.Time{}, verify.OwnPod{}, "", verify.Waits{}, time.Time{}, "", time.Time{}
		entry.opened = entry.opened || opened
	})
}

// creates notes that the worker Pod of an attempt is being created. What create returns is its uid.
func (m *memory) creates(uid, attempt string, skip []string, create func() (string, error)) (created string, err error) {
	m.change(uid, func(entry *remembered) {
		entry.worker, entry.skipped = verify.OwnPod{Attempt: attempt}, strings.Join(skip, ",")
	})
	if created, err = create(); err != nil {
		return "", err
	}
	m.change(uid, func(entry *remembered) {
		if entry.worker.Attempt == attempt { // else the taint was removed meanwhile
			entry.worker.UID = created
		}
	})
	return created, nil
}

// forget is called when the Node object is deleted.
func (m *memory) forget(uid string) { m.change(uid, func(entry *remembered) { *entry = remembered{} }) }

// reset gets a Node without worker Pods that no longer has the taint.
func (m *memory) reset(uid string) {
	m.change(uid, func(entry *remembered) { *entry = remembered{opened: entry.opened, served: entry.served} }) // the watch may have brought the taint by now
}
