package capture

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
)

// observations holds the last observed state of each Node and the last states of deleted objects that are not reconciled yet. The queue holds names only, and
// a Node can be labelled, deleted and created again between two reconciles: the last state of each deleted object is kept
// until it is reconciled, and comes before the object that lives now. It is fed in the order of the watch and never mixed
// with the informer's store, which runs ahead of its handlers.
type observations struct {
	mu       sync.Mutex
	byName   map[string]*nodeStates
	standing standing
}

type nodeStates struct {
	gone []*observe.Slim // last states of objects that went, oldest first
	live *observe.Slim   // nil: no such Node

	recorded   bool // there was a record when it was last looked at, and no sweep may remove it before its Node goes
	unreadable bool // it could not be read since a worker took the name up
	// retained are those that had gone before, when that was a record which only the end of its retention removes, or a person.
	retained map[types.UID]bool

	backlog *backlog    // nil: all is dealt with
	ahead   *aheadSince // nil: its record was not ahead of it when it was last looked at
}

// aheadSince is since when a state of a record has been ahead of the Node.
type aheadSince struct {
	record string // the version of its ConfigMap
	time   time.Time
}

// newObservations has seen nothing. lifted is called, under its lock, with how long a gate was on that is seen to be gone.
func newObservations(gated func([]corev1.Taint) bool, lifted func(after time.Duration), now func() time.Time) *observations {
	return &observations{
		byName:   map[string]*nodeStates{},
		standing: standing{gated: gated, lifted: lifted, now: now, since: map[string]time.Time{}},
	}
}

// lives notes the state of a live Node and reports whether anything could be decided differently for it.
func (s *observations) lives(node *observe.Slim) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(node.Name())
	before := of.live
	if before != nil && !before.Differs(node) {
		of.live = node
		return false
	}
	live, current := of.counted()
	defer s.standing.recount(of, live, current)
	of.live = node
	of.markPending(s.standing.now())
	s.standing.gate(before, node)
	if before != nil && before.UID() != node.UID() { // deleted and created again while the watch was down
		of.gone = append(of.gone, before)
	}
	return true
}

// went notes the last state of a Node object.
func (s *observations) went(node *observe.Slim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(node.Name())
	live, current := of.counted()
	defer s.standing.recount(of, live, current)
	of.gone = append(of.gone, node)
	of.markPending(s.standing.now())
	if of.live != nil && of.live.UID() == node.UID() {
		of.live = nil
		delete(s.standing.since, node.Name())
	}
}

// isAhead notes that a record, of the version given, tells of a later state of its Node than the watch has brought. It reports how long
// is left until that has been so for a time; with another version, all of it.
func (s *observations) isAhead(name, record string, patience time.Duration) (left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	if !known {
		return patience
	}
	now := s.standing.now()
	if of.ahead == nil || of.ahead.record != record {
		of.ahead = &aheadSince{record: record, time: now}
	}
	return patience - now.Sub(of.ahead.time)
}

// look is what there is to reconcile for a name. All of it is the caller's own.
func (s *observations) look(name string) (gone []*observe.Node, live *observe.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	if !known {
		return nil, nil
	}
	for _, last := range of.gone {
		gone = append(gone, last.Node())
	}
	if of.live != nil {
		live = of.live.Node()
	}
	return gone, live
}

// settled forgets the last state of an object that went: it has been dealt with.
func (s *observations) settled(name string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	if !known {
		return
	}
	for i, node := range of.gone {
		if node.UID() == uid {
			of.gone = append(of.gone[:i:i], of.gone[i+1:]...)
			break
		}
	}
	if len(of.gone) == 0 && of.live == nil {
		delete(s.byName, name)
	}
}

// hasRecord notes that there is a record of a Node, and whether it is kept for as long as the Node is remembered.
func (s *observations) hasRecord(name string, retained bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, known := s.byName[name]; known {
		of.recorded, of.retained = !retained, nil
		if retained && len(of.gone) > 0 {
			of.retained = make(map[types.UID]bool, len(of.gone))
			for _, node := range of.gone {
				of.retained[node.UID()] = true
			}
		}
	}
}

// wasRetained reports whether there was such a record after an object had gone.
func (s *observations) wasRetained(name string, uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	return known && of.retained[uid]
}

// lostRecord reports, once, whether there was a record of a Node, now that there is none.
func (s *observations) lostRecord(name string) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.byName[name]
	if known {
		lost, of.recorded = of.recorded, false
	}
	return lost
}

// knows reports whether a Node lives or waits to be reconciled.
func (s *observations) knows(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.byName[name]
	return known
}

// names lists every Node that lives or waits to be reconciled.
func (s *observations) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.byName))
	for name := range s.byName {
		names = append(names, name)
	}
	return names
}

func (s *observations) of(name string) *nodeStates {
	of, known := s.byName[name]
	if !known {
		of = &nodeStates{}
		s.byName[name] = of
	}
	return of
}
