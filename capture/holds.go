package capture

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
)

// take takes a step if this replica may do so now.
func (a *attempt) take(ctx context.Context, next Action) (result, error) {
	if !a.mayAct(next) {
		return postponed, nil
	}
	if a.coalesces(next) {
		if wait := a.coalescer.Wait(a.node.Name, a.Now()); wait > 0 {
			a.later(a.node.Name, wait)
			return postponed, nil
		}
	}
	if next = a.withoutPaused(next); a.nothing(next) {
		return finished, nil
	}
	if !a.turn && next.needsTurn() {
		if wait := a.labelPace.Wait(a.node.Name, a.Now()); wait > 0 {
			a.later(a.node.Name, wait)
			return postponed, nil
		}
		a.turn = true // the live read before the PATCH comes round to here again
	}
	return a.act(ctx, next)
}

// nothing reports whether nothing is to be done. A right record is written again if its ConfigMap has lost the label that the informer
// selects on.
func (a *attempt) nothing(next Action) bool { return next.Step == Nothing && !a.entry.Unlisted }

// mayAct reports whether this replica acts now: it leads, or what is due has waited for others long enough. An edit that the last state of a
// deleted Node shows never waits, since it is in memory only. A process that ends only writes records, and waits for none.
func (a *attempt) mayAct(next Action) bool {
	switch {
	case a.ending.Load():
		return next.Write != nil
	case a.event == Deleted && next.Write != nil && edits(a.entry.Record, *next.Write):
		return true
	}
	if next.Write == nil && (next.ChangesLabels() || next.WriteLabelList) && !a.leading.Load() && a.holds(a.Policy()) && next.Step == FollowRules {
		a.standby.forget(a.node.Name) // the leader has put other rules in force
		return false
	}
	if a.acts = a.acts || a.leading.Load(); !a.acts {
		if a.acts = a.standby.wait(a.node.Name, a.entry.Version, next.Settings(), a.Now()); a.acts {
			a.Logger.Info("no other replica has done what is due; this one does it", "node", a.node.Name, "step", next.Step)
		}
	}
	return a.acts
}

// coalesces reports whether an action records a change of a live Node that nothing waits for. A gate, a registration and a deletion never
// wait.
func (a *attempt) coalesces(next Action) bool {
	return a.event == Present && next.Step == Update && a.found && a.entry.Record.Newest().UID == a.node.UID && a.entry.Record.DeletedAt.IsZero() &&
		!a.ending.Load() && !a.node.Deleting() && !a.Policy().Gate().On(a.node.Taints)
}

// edits reports whether a client's decision is in one record and not in the other.
func edits(before, after record.Record) bool {
	return !maps.Equal(before.Items(), after.Items()) ||
		!slices.EqualFunc(before.Earlier, after.Earlier, func(was, is record.Record) bool { return !edits(was, is) }) ||
		before.Quarantined != nil && after.Quarantined != nil && edits(*before.Quarantined, *after.Quarantined)
}

// withoutPaused returns the action less the items that another client keeps undoing. The Node is queued again for the end of their pauses.
// An Event reports the first pause of each fight.
func (a *attempt) withoutPaused(next Action) Action {
	if next.Write != nil {
		return next
	}
	paused := map[plan.Setting]bool{}
	for _, set := range next.Settings() {
		wait, begins := a.fights.Allow(a.node.UID, set, a.Now())
		if begins {
			a.reportPaused(set)
		}
		if wait > 0 {
			paused[set] = true
			a.later(a.node.Name, wait)
		}
	}
	next.Plan, _ = next.Without(func(set plan.Setting) bool { return paused[set] })
	next.Step = stepFor(next.Plan)
	return next
}

// needsTurn reports whether new rules can have the same change made on many Nodes at once.
func (next Action) needsTurn() bool {
	return next.Step == Rename || next.Write == nil && next.Step == FollowRules && next.ChangesLabels()
}

// later has a Node reconciled again after a time. Until then, each resync queues it, too.
func (c *Controller) later(name string, wait time.Duration) {
	c.observations.unsettle(name)
	c.queue.AddAfter(name, wait)
}

// standbyInterval is how often a replica that does not lead looks for what is overdue.
const standbyInterval = 250 * time.Millisecond

// takeOver has what is overdue worked on.
func (c *Controller) takeOver(context.Context) {
	for _, node := range c.standby.late(c.Now()) {
		c.queue.Add(node)
	}
}

// patience is how long a replica that does not lead waits before it acts on due work without any progress. From then on it acts at once for
// a while. It stops when it observes the work of another replica, or when a new leader has had time to start.
const (
	patience = 3 * time.Second
	actsFor  = 30 * time.Second
)

// standby knows what is due and left to another replica. Safety needs no leader: every write is optimistic, and merging twice does no harm.
// The leader acts at once, so that work is not done twice. A replica that does not lead acts on work that has been due for a while without
// progress. A leader that is busy with very many Nodes makes progress.
type standby struct {
	mu       sync.Mutex
	due      map[string]*dueWork
	progress time.Time // when the work of another replica was last observed
	acting   time.Time // until when this replica acts at once
}

// dueWork is what is due for one Node.
type dueWork struct {
	since   time.Time      // when it was first observed
	offered time.Time      // when this replica last queued the Node for it
	acts    bool           // this replica has begun to act on it, so what is done is no sign of another replica
	record  string         // the version of the record's ConfigMap
	sets    []plan.Setting // what is due on the Node
}

func newStandby() *standby { return &standby{due: map[string]*dueWork{}} }

// wait notes what is due for a Node whose record has that version, and reports whether this replica acts now.
func (s *standby) wait(node, record string, sets []plan.Setting, now time.Time) (act bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work, known := s.due[node]
	switch {
	case !known:
		work = &dueWork{since: now}
		s.due[node] = work
	case !work.acts && work.record != record: // one step is done, and there is another one
		s.others(now)
	}
	work.record, work.sets = record, sets
	if s.overdue(work, now) {
		s.acting = now.Add(actsFor)
	}
	work.acts = work.acts || now.Before(s.acting)
	return now.Before(s.acting)
}

// others notes that another replica works.
func (s *standby) others(now time.Time) { s.progress, s.acting = now, time.Time{} }

// conflict notes that another process has written a record first. That may be a webhook, so it does not keep this replica from acting on
// what is overdue.
func (s *standby) conflict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acting = time.Time{}
}

// recordChanged notes that the record of a Node has changed. So a replica with many Nodes queued stops as soon as another replica works. It
// does not have to reach that Node in its queue first.
func (s *standby) recordChanged(node string, version func() string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if work, known := s.due[node]; known && !work.acts && work.record != version() {
		s.others(now)
	}
}

func (s *standby) overdue(work *dueWork, now time.Time) bool {
	return now.Sub(work.since) >= patience && now.Sub(s.progress) >= patience
}

// done notes that nothing is due for a Node any more. The Node's record has that version, and the Node shows those items. It returns what
// another replica has set on the Node. A client that undoes its own edit makes no progress.
func (s *standby) done(node, record string, items map[string]string, now time.Time) (others []plan.Setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work, known := s.due[node]
	if delete(s.due, node); !known || work.acts {
		return nil
	}
	for _, set := range work.sets {
		if set.ShownBy(items) {
			others = append(others, set)
		}
	}
	if len(others) > 0 || work.record != record {
		s.others(now)
	}
	return others
}

// forget drops what was due for a Node, since this replica can do nothing about it.
func (s *standby) forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, node)
}

// late returns the Nodes on which this replica may act now. Each is among them once in a while only: some are waited for on purpose.
func (s *standby) late(now time.Time) (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.progress) < patience {
		return nil
	}
	for node, work := range s.due {
		if (now.Before(s.acting) || s.overdue(work, now)) && now.Sub(work.offered) >= patience {
			work.offered = now
			nodes = append(nodes, node)
		}
	}
	return nodes
}
