package capture

import corev1 "k8s.io/api/core/v1"

// afterWaiting is the step that may be taken now, less what has to wait: items that another client keeps undoing, and a
// record of a Node that changes all the time. The Node is queued again for the end of the wait.
func (a *attempt) afterWaiting(next Plan) Plan {
	a.wait, a.coalesced = 0, false
	if a.event != Present || !a.leading.Load() {
		return next
	}
	switch puts := awaited(a.record(), a.seen, next, a.Policy()); {
	case len(puts) > 0: // the record would be written for nothing else than to precede these
		if len(a.paused(Plan{Put: puts})) == len(puts) {
			return Plan{Step: Nothing}
		}
		return next
	case coalesces(a.record(), a.seen, next, a.Policy()):
		if a.wait = a.coalescer.wait(a.seen.Name, a.Now()); a.wait > 0 {
			a.coalesced = true
			return Plan{Step: Nothing}
		}
		return next
	default:
		return next.without(a.paused(next), a.seen, a.Policy().Gate())
	}
}

// paused is what a step must not set yet. An Event reports the first pause of each fight.
func (a *attempt) paused(next Plan) map[setting]bool {
	paused := map[setting]bool{}
	for _, set := range next.settings(a.Policy().Gate()) {
		wait, begins := a.brake.Allow(a.seen.UID, set, a.Now())
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

// hasSet notes what a step has set on the Node.
func (a *attempt) hasSet(done Plan) {
	for _, set := range done.settings(a.Policy().Gate()) {
		a.brake.Done(a.seen.UID, set, a.Now())
	}
}

// queueAgain has the Node reconciled when the wait is over.
func (a *attempt) queueAgain() {
	if a.wait > 0 {
		a.queue.AddAfter(a.seen.Name, a.wait)
	}
}

func (a *attempt) reportPaused(set setting) {
	others := rivals(a.seen, set)
	a.Logger.Warn("another client undoes what nodekeep sets; nodekeep waits longer each time before it sets it again",
		"node", a.seen.Name, "item", set.item, "others", others)
	a.Events.Eventf(reference(a.seen), corev1.EventTypeWarning, ItemPaused,
		"Field managers %q and %s fight over %s: nodekeep %s, and the other client undoes that within seconds. nodekeep now waits longer each time before it does so again, up to %s, and keeps the taint %s on the Node meanwhile if it is there. Stop the other client, or change the policy of nodekeep.",
		fieldManager, named(others), kindOf(set.item)+" "+set.item, intent(set), a.brake.longest, a.Policy().Gate())
}
