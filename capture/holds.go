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
func (w *nodeWork) actIfAllowed(ctx context.Context, next Action) (result, error) {
	if !w.mayAct(next) {
		return postponed, nil
	}
	if w.coalesces(next) {
		if wait := w.coalescer.Wait(w.node.Name, w.Now()); wait > 0 {
			w.requeueAfter(w.node.Name, wait)
			return postponed, nil
		}
	}
	if next = w.withoutPaused(next); w.nothingToDo(next) {
		return finished, nil
	}
	if !w.hadTurn && next.needsTurn() {
		if wait := w.ruleChangeLimiter.Wait(w.node.Name, w.Now()); wait > 0 {
			w.requeueAfter(w.node.Name, wait)
			return postponed, nil
		}
		w.hadTurn = true // the live read before the PATCH comes round to here again
	}
	next, err := w.withoutHeldCorrections(ctx, next)
	switch {
	case err != nil:
		return decideAgain, err
	case w.nothingToDo(next):
		return postponed, nil
	case next.Step == NoStep: // only the label of the ConfigMap is missing, see [nodeWork.nothingToDo]
		return w.act(ctx, Action{Step: StepUpdateRecord, Record: &w.entry.Record})
	case next.Record == nil && !w.entryFromAPI: // the cache may be old: no Node is changed before its record was read from the API server
		return w.readRecordFromAPI(ctx)
	}
	return w.act(ctx, next)
}

// mayAct reports whether this replica acts now: it leads, or what is due has waited for others long enough. A client's change that only the last state
// of a deleted Node shows never waits, since it is nowhere but in memory. A process that ends only writes records, and does not wait for other replicas.
func (w *nodeWork) mayAct(next Action) bool {
	switch {
	case w.shuttingDown.Load():
		return next.Record != nil
	case w.presence == NodeDeleted && next.Record != nil && decisionsDiffer(w.entry.Record, *next.Record):
		return true
	}
	if next.Record == nil && (next.HasRuleEdits() || next.WriteLabelsAnnotation) && !w.leading.Load() && w.rulesHeld(w.Policy()) && next.Step == StepApplyRules {
		w.standby.Forget(w.node.Name) // the rules of this replica's policy are held, so the leader may have put others in force: only it applies rules now
		return false
	}
	if w.acts = w.acts || w.leading.Load(); !w.acts {
		if w.acts = w.standby.ShouldAct(w.node.Name, w.entry.Version, next.Plan, w.Now()); w.acts {
			w.Logger.Info("no other replica has done what is due; this one does it", "node", w.node.Name, "step", next.Step)
		}
	}
	return w.acts
}

// decisionsDiffer reports whether a client's decision is in one record and not in the other.
func decisionsDiffer(prev, next record.Record) bool {
	return !maps.Equal(prev.Items(), next.Items()) ||
		!slices.EqualFunc(prev.Earlier, next.Earlier, func(old, current record.Record) bool { return !decisionsDiffer(old, current) }) ||
		prev.Quarantined != nil && next.Quarantined != nil && decisionsDiffer(*prev.Quarantined, *next.Quarantined)
}

// coalesces reports whether an action records a change of a live Node that nothing waits for. A gate, a registration and a deletion never
// wait.
func (w *nodeWork) coalesces(next Action) bool {
	return w.presence == NodePresent && next.Step == StepUpdateRecord && w.hasRecord && w.entry.Record.Newest().UID == w.node.UID && w.entry.Record.DeletedAt.IsZero() &&
		!w.shuttingDown.Load() && !w.node.Deleting() && !w.Policy().Gate().Present(w.node.Taints)
}

// withoutPaused returns the action less the items that another client keeps undoing. The Node is queued again for the end of their pauses.
// An Event reports the first pause of each fight.
func (w *nodeWork) withoutPaused(next Action) Action {
	if next.Record != nil {
		return next
	}
	paused := map[plan.DesiredItem]bool{}
	for _, desired := range next.EnforcedItems() {
		wait, begins := w.fights.Wait(w.node.UID, desired, w.Now())
		if begins {
			w.reportPaused(desired)
		}
		if wait > 0 {
			paused[desired] = true
			w.requeueAfter(w.node.Name, wait)
		}
	}
	rest, _ := next.WithoutItems(func(desired plan.DesiredItem) bool { return paused[desired] })
	return actionOf(rest)
}

// nothingToDo reports whether nothing is to be done. A right record is written again if its ConfigMap has lost the label that the informer
// selects on.
func (w *nodeWork) nothingToDo(next Action) bool { return next.Step == NoStep && !w.entry.Unlisted }

// needsTurn reports whether the action is one that a new policy can cause on many Nodes at once.
func (a Action) needsTurn() bool {
	return a.Step == StepRenameLabel || a.Step == StepNoteBoot || a.Record == nil && a.Step == StepApplyRules && a.HasRuleEdits()
}

// withoutHeldCorrections returns the action less its corrections where the brake holds them, by what the live record says. The Node is queued again for
// when they may not be held any more.
func (w *nodeWork) withoutHeldCorrections(ctx context.Context, next Action) (Action, error) {
	corrections := next.WithCause(plan.CauseCorrection)
	if next.Record != nil || !w.entryFromAPI || w.correctionCounted || len(corrections) == 0 {
		return next, nil
	}
	allowed, err := w.brake.ReserveCorrection(ctx, w.node.Name, w.node.CreationTimestamp.Time)
	if w.correctionCounted = allowed; allowed || err != nil {
		return next, err
	}
	w.requeueAfter(w.node.Name, brake.RetryInterval)
	rest, _ := next.WithoutItems(func(desired plan.DesiredItem) bool {
		return slices.ContainsFunc(corrections, func(edit plan.Edit) bool { return edit.Item == desired.Item })
	})
	return actionOf(rest), nil
}

// requeueAfter has a Node reconciled again after a time. Until then, each resync queues it, too.
func (c *Controller) requeueAfter(name string, wait time.Duration) {
	c.observations.keepInResync(name)
	c.queue.AddAfter(name, wait)
}
