package verify

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Turn is in which line a Node waits for its worker Pod. A line waits until those before it are empty.
type Turn int

// The lines.
const (
	TurnFirst  Turn = iota // the first attempt on a Node that takes no workloads
	TurnRetry              // a later one
	TurnAgain              // a Node that takes workloads, and fails, or is to be checked now
	TurnReport             // any other Node that takes workloads
	turns
)

// Turn returns in which line the Node of an action waits to start a worker Pod.
func (a Action) Turn() Turn {
	switch {
	case a.Profile.ReportsOnly() && (a.asked || a.Progress.tried() > 0):
		return TurnAgain
	case a.Profile.ReportsOnly():
		return TurnReport
	case a.First:
		return TurnFirst
	}
	return TurnRetry
}

// Starts decides which Node gets its worker Pod next: so many a second, and so many Pods at once. First attempts go before retries, so that Nodes which keep
// failing do not keep new ones waiting. Nodes that take workloads go last. It is not safe for concurrent use.
type Starts struct {
	limit    *rate.Limiter
	inFlight int

	lines    [turns][]string      // names of Nodes, the oldest first
	waiting  map[string]Turn      // those in lines, and in which
	granted  sets.Set[string]     // Nodes that may start a Pod now
	creating sets.Set[string]     // names of worker Pods that are being created
	pods     map[string]time.Time // worker Pods that exist, by uid: when they were created here; zero: the watch has brought them
}

// unseen is how long a created Pod may be missing from the watch until it no longer counts.
const unseen = 2 * time.Minute

// NewStarts returns a Starts in which nothing waits and no Pod exists.
func NewStarts(start Start) *Starts {
	s := &Starts{
		limit: rate.NewLimiter(0, 1), waiting: map[string]Turn{}, pods: map[string]time.Time{},
		granted: sets.New[string](), creating: sets.New[string](),
	}
	s.Limit(start, time.Time{})
	return s
}

// Limit changes the bounds.
func (s *Starts) Limit(start Start, now time.Time) {
	s.inFlight = start.InFlight
	if limit := rate.Limit(start.PerSecond); limit != s.limit.Limit() {
		s.limit.SetLimitAt(now, limit)
		s.limit.SetBurstAt(now, max(1, start.PerSecond))
	}
}

// Want has a Node wait for its turn, unless it waits already or has it.
func (s *Starts) Want(node string, turn Turn) {
	if prev, ok := s.waiting[node]; s.granted.Has(node) || ok && prev == turn {
		return
	}
	s.waiting[node] = turn
	s.lines[turn] = append(s.lines[turn], node)
}

// Granted reports whether it is a Node's turn.
func (s *Starts) Granted(node string) bool { return s.granted.Has(node) }

// Next grants the next Node its turn. Without one, again shows when to ask once more; zero: after Want or Gone.
func (s *Starts) Next(now time.Time) (node string, wait time.Duration) {
	for uid, created := range s.pods {
		if !created.IsZero() && now.Sub(created) > unseen {
			delete(s.pods, uid)
		}
	}
	if len(s.waiting) == 0 || s.InFlight()+len(s.granted) >= s.inFlight {
		return "", 0
	}
	turn := s.limit.ReserveN(now, 1)
	if delay := turn.DelayFrom(now); delay > 0 {
		turn.CancelAt(now)
		return "", delay
	}
	for turn := range turns {
		for line := &s.lines[turn]; len(*line) > 0; {
			node, *line = (*line)[0], (*line)[1:]
			if in, ok := s.waiting[node]; ok && in == turn { // else it changed lines, or waits no more
				delete(s.waiting, node)
				s.granted.Insert(node)
				return node, 0
			}
		}
	}
	return "", 0
}

// Take uses the turn of a Node for a Pod of this name. If the Node has no turn, ok is false. The Pod counts from now on.
func (s *Starts) Take(node, pod string) (ok bool) {
	if ok = s.granted.Has(node); ok {
		s.granted.Delete(node)
		s.creating.Insert(pod)
	}
	return ok
}

// Control counts a control Pod that is created now. It never waits: Nodes that fill inFlight may wait for it. Worker Pods start later instead.
func (s *Starts) Control(pod string, now time.Time) {
	s.limit.ReserveN(now, 1)
	s.creating.Insert(pod)
}

// Created ends a Take or a Control. It gets the uid of the Pod, or no uid if the Pod could not be created.
func (s *Starts) Created(pod, uid string, now time.Time) {
	s.creating.Delete(pod)
	if _, known := s.pods[uid]; uid != "" && !known {
		s.pods[uid] = now
	}
}

// Leave is called when a Node is not to be started any more.
func (s *Starts) Leave(node string) {
	delete(s.waiting, node)
	s.granted.Delete(node)
}

// Exists counts a Pod that was observed.
func (s *Starts) Exists(uid string) { s.pods[uid] = time.Time{} }

// Gone no longer counts a Pod that was observed to be deleted. Names do not matter here: a Pod that was created again has the name of the one before.
func (s *Starts) Gone(uid string) { delete(s.pods, uid) }

// InFlight returns how many Pods exist or are being created.
func (s *Starts) InFlight() int { return len(s.pods) + len(s.creating) }
