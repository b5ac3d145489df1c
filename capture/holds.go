package capture

import (
	"context"
	"maps"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/capture/brake"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
)

// actIfAllowed takes a step if nothing holds it now: another replica, a busy Node, a fight, the pace of new rules, or the brake.
func (a *attempt) actIfAllowed(ctx context.Context, next Action) (result, error) {
	if !a.mayAct(next) {
		return postponed, nil
	}
	if a.coalesces(next) {
		if wait := a.coalescer.Wait(a.node.Name, a.Now()); wait > 0 {
			a.requeueAfter(a.node.Name, wait)
			return postponed, nil
		}
	}
	if next = a.withoutPaused(next); a.idle(next) {
		return finished, nil
	}
	if !a.hadTurn && next.needsTurn() {
		if wait := a.labelPace.Wait(a.node.Name, a.Now()); wait > 0 {
			a.requeueAfter(a.node.Name, wait)
			return postponed, nil
		}
		a.hadTurn = true // the live read before the PATCH comes round to here again
	}
	next, err := a.withoutCorrections(ctx, next)
	switch {
	case err != nil:
		return retry, err
	case a.idle(next):
		return postponed, nil
	case next.Step == NoStep:
		return a.act(ctx, Action{Step: Update, Write: &a.entry.Record})
	case next.Write == nil && !a.entryLive: // never change a Node on the cache's word alone
		return a.readLive(ctx)
	}
	return a.act(ctx, next)
}

// mayAct reports whether this replica acts now: it leads, or what is due has waited for others long enough. A client's change that only the last state
// of a deleted Node shows never waits, since it is nowhere but in memory. A process that ends only writes records, and does not wait for other replicas.
func (a *attempt) mayAct(next Action) bool {
	switch {
	case a.ending.Load():
		return next.Write != nil
	case a.event == Deleted && next.Write != nil && decisionsDiffer(a.entry.Record, *next.Write):
		return true
	}
	if next.Write == nil && (next.ChangesLabels() || next.WriteLabelList) && !a.leading.Load() && a.holds(a.Policy()) && next.Step == ApplyRules {
		a.standby.Forget(a.node.Name) // the leader has put other rules in force
		return false
	}
	if a.mayWrite = a.mayWrite || a.leading.Load(); !a.mayWrite {
		if a.mayWrite = a.standby.ShouldAct(a.node.Name, a.entry.Version, next.Settings(), a.Now()); a.mayWrite {
			a.Logger.Info("no other replica has done what is due; this one does it", "node", a.node.Name, "step", next.Step)
		}
	}
	return a.mayWrite
}

// decisionsDiffer reports whether a client's decision is in one record and not in the other.
func decisionsDiffer(prev, next record.Record) bool {
	return !maps.Equal(prev.Items(), next.Items()) ||
		!slices.EqualFunc(prev.Earlier, next.Earlier, func(old, current record.Record) bool { return !decisionsDiffer(old, current) }) ||
		prev.Quarantined != nil && next.Quarantined != nil && decisionsDiffer(*prev.Quarantined, *next.Quarantined)
}

// coalesces reports whether an action records a change of a live Node that nothing waits for. A gate, a registration and a deletion never
// wait.
func (a *attempt) coalesces(next Action) bool {
	return a.event == Present && next.Step == Update && a.hasRecord && a.entry.Record.Newest().UID == a.node.UID && a.entry.Record.DeletedAt.IsZero() &&
		!a.ending.Load() && !a.node.Deleting() && !a.Policy().Gate().Present(a.node.Taints)
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
			a.requeueAfter(a.node.Name, wait)
		}
	}
	rest, _ := next.WithoutSettings(func(set plan.Setting) bool { return paused[set] })
	return actionOf(rest)
}

// idle reports whether nothing is to be done. A right record is written again if its ConfigMap has lost the label that the informer
// selects on.
func (a *attempt) idle(next Action) bool { return next.Step == NoStep && !a.entry.Unlisted }

// needsTurn reports whether the action is one that new rules can cause on many Nodes at once.
func (next Action) needsTurn() bool {
	return next.Step == Rename || next.Write == nil && next.Step == ApplyRules && next.ChangesLabels()
}

// withoutCorrections returns the action less its corrections where the brake holds them, by what the live record says. The Node is queued again for
// when they may not be held any more.
func (a *attempt) withoutCorrections(ctx context.Context, next Action) (Action, error) {
	held := next.WithCause(plan.Correction)
	if next.Write != nil || !a.entryLive || a.corrected || len(held) == 0 {
		return next, nil
	}
	allowed, err := a.brake.MayCorrect(ctx, a.node.Name, a.node.CreationTimestamp.Time)
	if a.corrected = allowed; allowed || err != nil {
		return next, err
	}
	a.requeueAfter(a.node.Name, brake.RetryInterval)
	rest, _ := next.WithoutSettings(func(set plan.Setting) bool {
		return slices.ContainsFunc(held, func(edit plan.Edit) bool { return edit.Item == set.Item })
	})
	return actionOf(rest), nil
}

// requeueAfter has a Node reconciled again after a time. Until then, each resync queues it, too.
func (c *Controller) requeueAfter(name string, wait time.Duration) {
	c.observations.unsettle(name)
	c.queue.AddAfter(name, wait)
}
