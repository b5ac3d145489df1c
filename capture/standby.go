package capture

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// patience is how long something must have been due, and no other replica have made progress, before one that does not lead acts. From
// then on it acts at once for a while: until it sees another one make progress, or a new leader has had the time to come.
const (
	patience = 3 * time.Second
	actsFor  = 30 * time.Second
)

// standby knows what is due and left to another replica. Safety needs no leader: every write is optimistic, and merging twice does no
// harm. The leader acts at once so that work is not done twice. A replica that does not lead acts on what has been due for a
// while if nobody makes progress. A leader that is busy with very many Nodes makes progress.
type standby struct {
	mu       sync.Mutex
	due      map[string]dueWork
	progress time.Time // when another replica was last seen to have done what was due
	acting   time.Time // until when this replica acts at once
}

// dueWork is what is due for one Node, and since when.
type dueWork struct {
	since    time.Time
	object   types.UID
	settings []setting
}

func newStandby() *standby { return &standby{due: map[string]dueWork{}} }

// wait notes that something is due for a Node, and reports whether this replica acts now.
func (s *standby) wait(node string, work dueWork, now time.Time) (act bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.due[node]; known {
		work.since = before.since
	} else {
		work.since = now
	}
	s.due[node] = work
	if s.overdue(work, now) {
		s.acting = now.Add(actsFor)
	}
	return now.Before(s.acting)
}

func (s *standby) overdue(work dueWork, now time.Time) bool {
	return now.Sub(work.since) >= patience && now.Sub(s.progress) >= patience
}

// done notes that nothing is due for a Node any more. Unless this replica did it, that is another one's progress, and what that one has set
// is returned.
func (s *standby) done(node string, acted bool, now time.Time) (object types.UID, others []setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work, known := s.due[node]
	if delete(s.due, node); !known || acted {
		return "", nil
	}
	s.progress, s.acting = now, time.Time{}
	return work.object, work.settings
}

// late are the Nodes on which this replica may act now.
func (s *standby) late(now time.Time) (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.progress) < patience {
		return nil
	}
	for node, work := range s.due {
		if now.Before(s.acting) || s.overdue(work, now) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// tick is how often a replica that does not lead looks for what is overdue.
const tick = 250 * time.Millisecond

// takeOver has what is overdue worked on until ctx is done.
func (c *Controller) takeOver(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, node := range c.standby.late(c.Now()) {
				c.queue.Add(node)
			}
		}
	}
}

// mayAct reports whether this replica carries out an action now: it leads, or what is due has waited for others long enough.
func (a *attempt) mayAct(next Action) bool {
	if a.acts = a.acts || a.leading.Load(); !a.acts {
		work := dueWork{object: a.node.UID, settings: next.settings(a.Policy().Gate())}
		if a.acts = a.standby.wait(a.node.Name, work, a.Now()); a.acts {
			a.Logger.Info("no other replica has done what is due; this one does it", "node", a.node.Name, "step", next.Step)
		}
	}
	return a.acts
}

// nothingDue notes that nothing is left to do for the Node. What another replica has set counts for the brake, as if this one had.
func (a *attempt) nothingDue() {
	object, others := a.standby.done(a.node.Name, a.acts, a.Now())
	for _, set := range others {
		a.brake.Done(object, set, a.Now())
	}
}
