package capture

import (
	"context"
	"maps"
	"slices"
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

// withoutPaused is the action less the items that another client keeps undoing. The Node is queued again for the end of their pauses.
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
