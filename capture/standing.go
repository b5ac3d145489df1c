package capture

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
)

// standing is how the Nodes stand, for the metrics. It is kept with every observation, so that a scrape walks none of them but
// those that are gated. The lock of the observations that it belongs to guards it.
type standing struct {
	gated  func([]corev1.Taint) bool
	lifted func(after time.Duration) // called when a gate is seen to be gone
	now    func() time.Time

	live    int                  // Nodes that exist
	current int                  // those of them without a backlog
	since   map[string]time.Time // since when Nodes have carried the gate
}

// creationsTell is the age from which on the creation time of a Node, in whole seconds and by another clock, tells better
// since when it has been gated than the moment at which it was first seen.
const creationsTell = 5 * time.Second

// gate notes whether a live Node carries the gate; before is its state until now, nil where it is new.
func (s *standing) gate(before, node *observe.Slim) {
	name := node.Name()
	newborn := before == nil || before.UID() != node.UID()
	since, was := s.since[name]
	switch {
	case !s.gated(node.Taints()):
		if was && !newborn {
			s.lifted(s.now().Sub(since))
		}
		delete(s.since, name)
	case !was || newborn:
		since = s.now()
		if created := node.Created().Time; newborn && !created.IsZero() && since.Sub(created) > creationsTell {
			since = created
		}
		s.since[name] = since
	}
}

// recount replaces what a name added to the counts before by what it adds now.
func (s *standing) recount(of *nodeStates, liveBefore, currentBefore int) {
	live, current := of.counted()
	s.live += live - liveBefore
	s.current += current - currentBefore
}

// counted is what a name adds to the counts.
func (of *nodeStates) counted() (live, current int) {
	switch {
	case of.live == nil:
		return 0, 0
	case of.backlog != nil:
		return 1, 0
	default:
		return 1, 1
	}
}

// counts are how many Nodes live, how many of them have a current record, and how many carry the gate.
func (s *observations) counts() (live, current, gated int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing.live, s.standing.current, len(s.standing.since)
}

// longestGated is how long the gate has been on the Node that has carried it longest; 0 where none does.
func (s *observations) longestGated() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.standing.now()
	for _, since := range s.standing.since {
		longest = max(longest, now.Sub(since))
	}
	return longest
}
