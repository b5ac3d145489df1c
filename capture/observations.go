package capture

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/fleet"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
)

// observations holds the last observed state of each Node, and the last states of deleted objects until they are reconciled. The queue
// holds names only, and a Node can be labelled, deleted and created again between two reconciles. So the last state of each deleted object
// is kept, and is reconciled before the live object. It is fed in the order of the watch. It is never mixed with the informer's store,
// which runs ahead of its handlers.
type observations struct {
	hasGate  func([]corev1.Taint) bool
	onLifted func(delay time.Duration) // called, under the lock, with how long a removed gate was on the Node
	now      func() time.Time
	// sameRuleFacts reports whether two states of a Node are equal in what rules use.
	sameRuleFacts func(a, b *observe.CompactNode) bool

	mu          sync.Mutex
	byName      map[string]*nodeStates
	labelCounts *fleet.LabelCounts // counts the live states of byName
	// For the metrics, so that a scrape walks no Nodes but those that are pending or gated.
	pending    map[string]*pending
	gatedSince map[string]time.Time
}

type nodeStates struct {
	deleted []*observe.CompactNode // last states of deleted objects, oldest first
	live    *observe.CompactNode   // nil: no such Node

	vanished   bool // a client took its record away while the Node lived, and that is still to be reported
	unreadable bool // it could not be read since a worker started on the name
	// deletedWithRecord has the UIDs of deleted objects whose record existed after the deletion. If the record is missing later, it was removed on purpose: by an
	// operator, or at the end of its retention.
	deletedWithRecord map[types.UID]bool

	ahead *aheadSince // nil: its record was not ahead of it when it was last looked at

	readLiveOrDueLater bool         // since a worker started on the name: it read the record or the Node live, or something is due later
	idleInputs         resyncInputs // with which there is nothing to do for live, now or later; zero: there is something
}

// aheadSince is since when a state of a record has been ahead of the Node.
type aheadSince struct {
	recordVersion string // the version of its ConfigMap
	time          time.Time
}

// pending is since when there has been something to do for a name. For the metrics, a record is current if its Node has nothing pending.
// Then the record has all that was received of the Node, as the policy wants it, and is fully restored.
type pending struct {
	received time.Time // the first change that no worker has started on; zero: none
	started  time.Time // the first change that a worker has started on and not finished; zero: none
	stored   bool      // a record was written since then
}

// newObservations has seen nothing.
func newObservations(hasGate func([]corev1.Taint) bool, onLifted func(delay time.Duration), now func() time.Time) *observations {
	return &observations{
		hasGate: hasGate, onLifted: onLifted, now: now, sameRuleFacts: func(_, _ *observe.CompactNode) bool { return true },
		byName: map[string]*nodeStates{}, labelCounts: fleet.NewLabelCounts(now), pending: map[string]*pending{}, gatedSince: map[string]time.Time{},
	}
}

// ifKnown calls fn with what is known of a Node, if anything is.
func (s *observations) ifKnown(name string, fn func(states *nodeStates)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if states, known := s.byName[name]; known {
		fn(states)
	}
}

// markPending returns what is known of a Node, for a change that is pending from now on.
func (s *observations) markPending(name string) *nodeStates {
	if s.byName[name] == nil {
		s.byName[name] = &nodeStates{}
	}
	if s.pending[name] == nil {
		s.pending[name] = &pending{}
	}
	if p := s.pending[name]; p.received.IsZero() {
		p.received = s.now()
	}
	return s.byName[name]
}

// observeLive notes the state of a live Node and reports whether anything could be decided differently for it.
func (s *observations) observeLive(node *observe.CompactNode) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var prev *observe.CompactNode
	if states := s.byName[node.Name()]; states != nil {
		prev = states.live
	}
	differs := prev == nil || prev.DecisionsDiffer(node)
	if differs || !prev.SameKubeletReport(node) {
		s.labelCounts.Update(prev, node)
	}
	if !differs && s.sameRuleFacts(prev, node) {
		s.byName[node.Name()].live = node
		return false
	}
	states := s.markPending(node.Name())
	states.live = node
	s.trackGate(prev, node)
	if prev != nil && prev.UID() != node.UID() { // deleted and created again while the watch was down
		states.deleted = append(states.deleted, prev)
	}
	return true
}

// setCountedKeys counts the live Nodes by these keys from now on.
func (s *observations) setCountedKeys(keys []governance.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.labelCounts.SetKeys(keys) {
		return
	}
	for _, states := range s.byName {
		if states.live != nil {
			s.labelCounts.Update(nil, states.live)
		}
	}
}

// replaceLive replaces the live state by the same version of it with the annotations which were read. If the watch has brought another state, that stays.
func (s *observations) replaceLive(node *observe.CompactNode) {
	s.ifKnown(node.Name(), func(states *nodeStates) {
		if states.live != nil && states.live.UID() == node.UID() && states.live.Version() == node.Version() {
			states.live = node
		}
	})
}

// observeDeleted notes the last state of a deleted Node object.
func (s *observations) observeDeleted(node *observe.CompactNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := s.markPending(node.Name())
	states.deleted = append(states.deleted, node)
	if states.live != nil && states.live.UID() == node.UID() {
		s.labelCounts.Update(states.live, nil)
		states.live = nil
		delete(s.gatedSince, node.Name())
	}
}

// noteAhead notes that a record of that version holds a later state of its Node than the watch has brought. It returns how much of aheadFor
// is left. For another version, the time starts again.
func (s *observations) noteAhead(name, recordVersion string) (left time.Duration) {
	left = watchGrace
	s.ifKnown(name, func(states *nodeStates) {
		now := s.now()
		if states.ahead == nil || states.ahead.recordVersion != recordVersion {
			states.ahead = &aheadSince{recordVersion: recordVersion, time: now}
		}
		left -= now.Sub(states.ahead.time)
	})
	return left
}

// get returns what there is to reconcile for a name. All of it is the caller's own.
func (s *observations) get(name string) (deleted []*observe.Node, live *observe.Node) {
	s.ifKnown(name, func(states *nodeStates) {
		for _, last := range states.deleted {
			deleted = append(deleted, last.Node())
		}
		if states.live != nil {
			live = states.live.Node()
		}
	})
	return deleted, live
}

// forgetDeleted forgets the last state of a deleted object: it is reconciled.
func (s *observations) forgetDeleted(name string, uid types.UID) {
	s.ifKnown(name, func(states *nodeStates) {
		if i := slices.IndexFunc(states.deleted, func(last *observe.CompactNode) bool { return last.UID() == uid }); i >= 0 {
			states.deleted = slices.Delete(states.deleted, i, i+1)
		}
		if len(states.deleted) == 0 && states.live == nil {
			delete(s.byName, name)
			delete(s.pending, name)
		}
	})
}

// noteRecord notes that a Node has this record. If it is the record of a deleted Node, it is kept until its retention ends: the deleted objects are noted as
// ones that have had such a record.
func (s *observations) noteRecord(name string, r record.Record) {
	s.ifKnown(name, func(states *nodeStates) {
		states.deletedWithRecord = nil
		if !r.DeletedAt.IsZero() && !r.Empty() && len(states.deleted) > 0 {
			states.deletedWithRecord = make(map[types.UID]bool, len(states.deleted))
			for _, node := range states.deleted {
				states.deletedWithRecord[node.UID()] = true
			}
		}
	})
}

// hadRecordAfterDeletion reports whether a record of the deleted Node object of that UID was seen after the deletion.
func (s *observations) hadRecordAfterDeletion(name string, uid types.UID) (had bool) {
	s.ifKnown(name, func(states *nodeStates) { had = states.deletedWithRecord[uid] })
	return had
}

// noteVanished notes that a client took the record of a Node away, if the Node lives.
func (s *observations) noteVanished(name string) {
	s.ifKnown(name, func(states *nodeStates) { states.vanished = states.live != nil })
}

// takeVanished reports, once, whether a client took the record of a Node away.
func (s *observations) takeVanished(name string) (removed bool) {
	s.ifKnown(name, func(states *nodeStates) { removed, states.vanished = states.vanished, false })
	return removed
}

// noteUnreadable notes that the record of a Node cannot be read. The Node then does not count as current in the metrics, though capture cannot repair it.
func (s *observations) noteUnreadable(name string) {
	s.ifKnown(name, func(states *nodeStates) { states.unreadable = true })
}

// start notes that a worker begins with all that was received of a name. It must come before the worker looks.
func (s *observations) start(name string) {
	s.ifKnown(name, func(states *nodeStates) {
		states.unreadable, states.readLiveOrDueLater = false, false
		p := s.pending[name]
		if p == nil {
			return
		}
		if p.started.IsZero() || p.stored {
			p.started, p.stored = p.received, false
		} // else what was received is newer than the change that a worker has started on, whose time counts
		p.received = time.Time{}
	})
}

// noteWrite notes that a record was written. The first time since a worker started on the name, it returns the time since the first change.
func (s *observations) noteWrite(name string) (lag time.Duration, first bool) {
	s.ifKnown(name, func(*nodeStates) {
		if p := s.pending[name]; p != nil && !p.started.IsZero() && !p.stored {
			p.stored = true
			lag, first = s.now().Sub(p.started), true
		}
	})
	return lag, first
}

// keepInResync notes that a worker decides by more than the inputs that the resync compares, as by a live read. The Node then takes part in the next resync.
func (s *observations) keepInResync(name string) {
	s.ifKnown(name, func(states *nodeStates) { states.readLiveOrDueLater = true })
}

// annotationBytes returns the size of the annotations of a Node that lives.
func (s *observations) annotationBytes(name string) (bytes int) {
	s.ifKnown(name, func(states *nodeStates) {
		if states.live != nil {
			bytes = states.live.AnnotationBytes()
		}
	})
	return bytes
}

// unchangedSinceIdle reports whether nothing is to be done for a Node that lives, as it was found by these inputs.
func (s *observations) unchangedSinceIdle(name string, current resyncInputs) (unchanged bool) {
	s.ifKnown(name, func(states *nodeStates) {
		unchanged = states.live != nil && len(states.deleted) == 0 && s.pending[name] == nil && current != (resyncInputs{}) && states.idleInputs == current
	})
	return unchanged
}

// finish notes that a worker is through with a name, with which inputs (used), and whether nothing is left to do (done).
func (s *observations) finish(name string, done bool, used resyncInputs) {
	s.ifKnown(name, func(states *nodeStates) {
		done = done && !states.unreadable
		if states.idleInputs = used; !done || states.readLiveOrDueLater {
			states.idleInputs = resyncInputs{}
		}
		switch p := s.pending[name]; {
		case !done && p == nil:
			s.pending[name] = &pending{started: s.now()}
		case done && p != nil && p.received.IsZero():
			delete(s.pending, name)
		case done && p != nil:
			p.started = time.Time{}
		}
	})
}

// tracks reports whether a Node lives or waits to be reconciled.
func (s *observations) tracks(name string) (tracked bool) {
	s.ifKnown(name, func(*nodeStates) { tracked = true })
	return tracked
}

// names lists every Node that lives or waits to be reconciled.
func (s *observations) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.byName))
}

// waiting lists the Nodes of which something was received that is not reconciled, sorted.
func (s *observations) waiting() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.pending))
}

// creationTimeAge is how old a new Node with the gate must be for the gate to count from its creationTimestamp instead of from now. For a younger Node,
// now is more exact: the creationTimestamp is in whole seconds and by another clock.
const creationTimeAge = 5 * time.Second

// trackGate notes whether a live Node carries the gate; prev is its state until now, nil where it is new.
func (s *observations) trackGate(prev, node *observe.CompactNode) {
	name := node.Name()
	newObject := prev == nil || prev.UID() != node.UID()
	start, ok := s.gatedSince[name]
	switch {
	case !s.hasGate(node.Taints()):
		if ok && !newObject {
			s.onLifted(s.now().Sub(start))
		}
		delete(s.gatedSince, name)
	case !ok || newObject:
		start = s.now()
		if created := node.Created().Time; newObject && !created.IsZero() && start.Sub(created) > creationTimeAge {
			start = created
		}
		s.gatedSince[name] = start
	}
}

// counts returns how many Nodes live, how many of them have a current record, and how many carry the gate.
func (s *observations) counts() (live, current, gated int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, current = len(s.byName), len(s.byName)-len(s.pending)
	for name := range s.pending { // each name of a deleted Node is pending, too
		if s.byName[name].live == nil {
			live--
		}
	}
	return live, current, len(s.gatedSince)
}

// longestGated returns how long the gate has been on the Node that has carried it longest; 0 where none does.
func (s *observations) longestGated() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, start := range s.gatedSince {
		longest = max(longest, now.Sub(start))
	}
	return longest
}
