package capture

import (
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
)

// afterWaiting is the action that may be taken now, less what has to wait: items that another client keeps undoing, and a
// record of a Node that changes all the time. The Node is queued again for the end of the wait.
func (a *attempt) afterWaiting(next Action) Action {
	a.wait, a.coalesced = 0, false
	switch {
	case a.event != Present:
		return next
	case a.coalesces(next):
		if a.wait = a.coalescer.wait(a.node.Name, a.Now()); a.wait > 0 {
			a.coalesced = true
			return Action{Step: Nothing}
		}
	case next.Write == nil:
		next.Change = next.less(a.paused(next.Change))
		next.Step = next.step()
	}
	return next
}

// coalesces reports whether an action records a change of a live Node that nothing waits for: no gate, no registration and no
// deletion.
func (a *attempt) coalesces(next Action) bool {
	return a.event == Present && next.Step == Update && a.found && a.entry.Record.Newest().UID == a.node.UID && a.entry.Record.DeletedAt.IsZero() &&
		!a.node.Deleting() && !a.Policy().Gate().On(a.node.Taints)
}

// paused is what a change must not set yet. An Event reports the first pause of each fight.
func (a *attempt) paused(change Change) map[setting]bool {
	paused := map[setting]bool{}
	for _, set := range change.settings(a.Policy().Gate()) {
		wait, begins := a.brake.Allow(a.node.UID, set, a.Now())
		if wait == 0 {
			continue
		}
		paused[set] = true
		if a.wait == 0 || wait < a.wait {
			a.wait = wait
		}
		if begins {
			a.reportPaused(set)
		}
	}
	return paused
}

// hasSet notes what a change has set on the Node.
func (a *attempt) hasSet(done Change) {
	for _, set := range done.settings(a.Policy().Gate()) {
		a.brake.Done(a.node.UID, set, a.Now())
	}
}

// queueAgain has the Node reconciled when the wait is over.
func (a *attempt) queueAgain() {
	if a.wait > 0 {
		a.queue.AddAfter(a.node.Name, a.wait)
	}
}

func (a *attempt) reportPaused(set setting) {
	others := rivals(a.node, set)
	a.Logger.Warn("another client undoes what nodekeep sets; nodekeep waits longer each time before it sets it again",
		"node", a.node.Name, "item", set.item, "others", others)
	a.Events.Eventf(reference(a.node), corev1.EventTypeWarning, ItemPaused,
		"Field managers %q and %s fight over %v: nodekeep %s, and the other client undoes that within seconds. nodekeep now waits longer each time before it does so again, up to %s, and keeps the taint %s on the Node meanwhile if it is there. Stop the other client, or change the policy of nodekeep.",
		observe.FieldManager, named(others), set, intent(set), a.brake.longest, a.Policy().Gate())
}
