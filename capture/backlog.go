package capture

import "time"

// backlog is since when there has been something to do for a name. One that is dealt with has none. A record is current,
// for the metrics, where its Node has none: everything that was heard of the Node is in the record, as the policy wants it,
// and nothing of the record is left to be given.
type backlog struct {
	heard  time.Time // the first change that no worker has taken up; zero: none
	taken  time.Time // the first change that a worker has taken up and not dealt with; zero: none
	stored bool      // a record was written since then
}

// markPending notes a change.
func (of *nodeStates) markPending(now time.Time) {
	if of.backlog == nil {
		of.backlog = &backlog{}
	}
	if of.backlog.heard.IsZero() {
		of.backlog.heard = now
	}
}

// start notes that a worker begins with all that was heard of a name. It must come before the worker looks.
func (s *observations) start(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	if !known {
		return
	}
	of.unreadable = false
	if of.backlog == nil {
		return
	}
	if b := of.backlog; b.taken.IsZero() || b.stored {
		b.taken, b.heard, b.stored = b.heard, time.Time{}, false
	} else {
		b.heard = time.Time{} // it waits no longer than what is taken up
	}
}

// stored notes that a record was written. The first time since a worker took the name up, it tells how long that took from
// the first change on.
func (s *observations) stored(name string) (lag time.Duration, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	if !known || of.backlog == nil || of.backlog.taken.IsZero() || of.backlog.stored {
		return 0, false
	}
	of.backlog.stored = true
	return s.standing.now().Sub(of.backlog.taken), true
}

// cannotRead notes that the record of a Node cannot be read: it is not current then, though nothing can be done about it.
func (s *observations) cannotRead(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, known := s.byName[name]; known {
		of.unreadable = true
	}
}

// finish notes that a worker is through with a name, and whether something is left to do.
func (s *observations) finish(name string, dealt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	if !known {
		return
	}
	live, current := of.counted()
	defer s.standing.recount(of, live, current)
	dealt = dealt && !of.unreadable
	switch {
	case !dealt && of.backlog == nil:
		of.backlog = &backlog{taken: s.standing.now()}
	case dealt && of.backlog != nil && of.backlog.heard.IsZero():
		of.backlog = nil
	case dealt && of.backlog != nil:
		of.backlog.taken = time.Time{}
	}
}
