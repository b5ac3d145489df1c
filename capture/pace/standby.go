package pace

import (
	"sync"
	"time"

	"nodekeep.dev/nodekeep/plan"
)

// StandbyDelay is how long a replica that does not lead waits before it acts on due work without any progress. From then on it acts at once for
// [ActingPeriod]. It stops when it observes the work of another replica, or when a new leader has had time to start.
const (
	StandbyDelay = 3 * time.Second
	ActingPeriod = 30 * time.Second
)

// Standby knows what is due and left to another replica. Safety needs no leader: every write is optimistic, and merging twice does no harm.
// The leader acts at once, so that work is not done twice. A replica that does not lead acts on work that has been due for a while without
// progress. A leader that is busy with very many Nodes makes progress. Any goroutine may call its methods.
type Standby struct {
	mu        sync.Mutex
	due       map[string]*dueWork
	progress  time.Time // when the work of another replica was last observed
	actsUntil time.Time // until when this replica acts at once
}

// dueWork is what is due for one Node.
type dueWork struct {
	observed      time.Time          // when it was first observed
	queuedAt      time.Time          // when this replica last queued the Node for it
	acts          bool               // this replica has begun to act on it, so a change does not show another replica's progress
	recordVersion string             // the version of the record's ConfigMap
	desired       []plan.DesiredItem // what is due on the Node
	boot          string             // the boot that its stamp is to name; empty: it is not due
}

// NewStandby knows of nothing that is due.
func NewStandby() *Standby { return &Standby{due: map[string]*dueWork{}} }

// ShouldAct notes what is due for a Node whose record has that version, and reports whether this replica acts now.
func (s *Standby) ShouldAct(node, recordVersion string, due plan.Plan, now time.Time) (act bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work, known := s.due[node]
	switch {
	case !known:
		work = &dueWork{observed: now}
		s.due[node] = work
	case !work.acts && work.recordVersion != recordVersion: // one step is done, and there is another one
		s.noteProgress(now)
	}
	work.recordVersion, work.desired, work.boot = recordVersion, due.EnforcedItems(), due.Boot
	if s.overdue(work, now) {
		s.actsUntil = now.Add(ActingPeriod)
	}
	work.acts = work.acts || now.Before(s.actsUntil)
	return now.Before(s.actsUntil)
}

// noteProgress notes that another replica works.
func (s *Standby) noteProgress(now time.Time) { s.progress, s.actsUntil = now, time.Time{} }

// Conflict notes that another process has written a record first. That may be a webhook, so it does not keep this replica from acting on
// what is overdue.
func (s *Standby) Conflict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actsUntil = time.Time{}
}

// RecordChanged notes that the record of a Node has changed. So a replica with many Nodes queued stops as soon as another replica works. It
// does not have to reach that Node in its queue first.
func (s *Standby) RecordChanged(node string, version func() string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if work, known := s.due[node]; known && !work.acts && work.recordVersion != version() {
		s.noteProgress(now)
	}
}

func (s *Standby) overdue(work *dueWork, now time.Time) bool {
	return now.Sub(work.observed) >= StandbyDelay && now.Sub(s.progress) >= StandbyDelay
}

// Settle notes that nothing is due for a Node any more. The parameters are the version of the Node's record, and the items of the Node and the boot that its
// stamp names now. It returns what was due and is on the Node, items and boot: another replica has set it. If nothing of it is there and the record is the
// same, a client has only undone its own edit, which is no progress of another replica.
func (s *Standby) Settle(node, recordVersion string, items map[string]string, boot string, now time.Time) (setByOthers []plan.DesiredItem, notedByOthers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work, known := s.due[node]
	if delete(s.due, node); !known || work.acts {
		return nil, false
	}
	for _, desired := range work.desired {
		if desired.SatisfiedBy(items) {
			setByOthers = append(setByOthers, desired)
		}
	}
	notedByOthers = work.boot != "" && work.boot == boot
	if len(setByOthers) > 0 || work.recordVersion != recordVersion || notedByOthers {
		s.noteProgress(now)
	}
	return setByOthers, notedByOthers
}

// Forget drops what was due for a Node, since this replica can do nothing about it.
func (s *Standby) Forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, node)
}

// TakeOverdue returns the Nodes on which this replica may act now. Each is among them once in a while only: some are waited for on purpose.
func (s *Standby) TakeOverdue(now time.Time) (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.progress) < StandbyDelay {
		return nil
	}
	for node, work := range s.due {
		if (now.Before(s.actsUntil) || s.overdue(work, now)) && now.Sub(work.queuedAt) >= StandbyDelay {
			work.queuedAt = now
			nodes = append(nodes, node)
		}
	}
	return nodes
}
