package capture

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/plan"
)

// roundsBeforeKeyByKey is how often a give-back is refused as a whole before each of its labels is tried alone.
const roundsBeforeKeyByKey = 3

// notes is what this process knows of a Node object. It prevents floods of refused requests and of Events. It is in memory only, and only for
// objects with something to note. A restart or a new policy clears it. Only one worker at a time works on a Node, and so on its notes.
type notes struct {
	rounds   int                // how often a change was refused as a whole
	refused  map[string]refusal // items that the API server would not have when they were last tried
	reported map[string]bool
}

// refusal is how often in a row an item was refused, and until when it waits. What refuses it may be deleted the next moment, so no refusal is
// for ever. Each pause is twice as long as the one before, from a second to five minutes.
type refusal struct {
	times int
	until time.Time
}

// again returns the refusal once the item was refused once more.
func (r refusal) again(now time.Time) refusal {
	return refusal{times: r.times + 1, until: now.Add(pace.PauseAfter(pace.FreeFlaps+r.times, pace.LongestPause))}
}

// notesOf returns the notes of a Node object, for one to be added.
func (c *Controller) notesOf(uid types.UID) *notes {
	of, _ := c.notes.LoadOrStore(uid, &notes{refused: map[string]refusal{}, reported: map[string]bool{}})
	return of.(*notes)
}

// refusedOn returns the items that the API server would not have on a Node object. The next of them is tried again after wait; 0: none waits.
func (c *Controller) refusedOn(uid types.UID, now time.Time) (refused map[string]bool, wait time.Duration) {
	of, known := c.notes.Load(uid)
	if !known {
		return nil, 0
	}
	for key, refusal := range of.(*notes).refused {
		left := refusal.until.Sub(now)
		if left <= 0 {
			continue
		}
		if refused == nil {
			refused, wait = map[string]bool{}, left
		}
		refused[key], wait = true, min(wait, left)
	}
	return refused, wait
}

// accepted forgets the refusals of items that the API server has taken. What it refuses later is reported again.
func (c *Controller) accepted(uid types.UID, change plan.Plan) {
	of, known := c.notes.Load(uid)
	if !known {
		return
	}
	notes := of.(*notes)
	if len(change.Owners) > 0 {
		delete(notes.refused, plan.ManagedFields)
	}
	for _, key := range change.Keys() {
		delete(notes.refused, key)
		delete(notes.reported, reportedRefusal(key))
	}
}

func reportedRefusal(key string) string { return "refused " + key }

// mostReported bounds what is reported of one Node object. A kubelet's reports can make ever new values.
const mostReported = 200

// report reports whether something has not been reported of the Node object yet.
func (n *notes) report(what string) (news bool) {
	news = !n.reported[what] && len(n.reported) < mostReported
	if news {
		n.reported[what] = true
	}
	return news
}

// refused handles a PATCH that the API server has refused. A wrong uid is refused, too: then another object has the name. Otherwise the
// same PATCH is retried a few times. Then each key is tried alone, to find out which items are refused.
func (a *attempt) refused(ctx context.Context, change plan.Plan, refused error) (result, error) {
	if result, err := a.readNode(ctx); err != nil || result != again {
		return result, err
	}
	refused = fmt.Errorf("patch node %q: %w", a.node.Name, refused)
	notes := a.notesOf(a.node.UID)
	if len(change.Owners) > 0 { // tried without them first
		notes.refused[plan.ManagedFields] = notes.refused[plan.ManagedFields].again(a.Now())
		return again, nil
	}
	if notes.rounds++; notes.rounds < roundsBeforeKeyByKey || len(change.Keys()) == 0 {
		return again, refused
	}
	if len(change.Keys()) > 1 || change.LiftsGate() || change.Any(plan.Derivation) {
		a.keyByKey = true // decided again first: the Node may not be what the change was made for
		return again, nil
	}
	// The only item of a change waits, unless every change of the Node is refused.
	key := change.Keys()[0]
	node, err := a.patch(ctx, plan.Plan{Edits: change.By(plan.Registration), Stamp: change.Stamp})
	if err != nil {
		return again, refused
	}
	a.node = node
	notes.refused[key] = notes.refused[key].again(a.Now())
	if notes.report(reportedRefusal(key)) {
		a.reportRefused(a.node, key, refused)
	}
	return again, nil
}
