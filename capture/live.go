package capture

import (
	"context"
	"errors"
	"time"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Caches and records can be wrong in these cases. So capture asks the API server before it acts on them.

// retained reports whether a record is there only until its retention is over.
func retained(r record.Record) bool { return !r.DeletedAt.IsZero() && !r.Empty() }

// forgotten reports whether a record existed after the deletion of an object and was removed since. The end of its retention or an operator
// removed it. A replica that did not act may have observed deletions that the acting one only knew from a list. It must not create the
// record again later.
func (c *Controller) forgotten(ctx context.Context, last *observe.Node) (bool, error) {
	if !c.observations.wasRetained(last.Name, last.UID) {
		return false, nil
	}
	_, err := c.Records.Get(last.Name)
	if errors.Is(err, store.ErrNotFound) { // it may just not be in memory yet
		_, err = c.Records.GetLive(ctx, last.Name)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	case errors.Is(err, store.ErrUnreadable):
		return false, nil
	default:
		return false, err
	}
}

// aheadFor is how long a record is ahead of its Node before capture asks the API server. Usually the watch brings a later state sooner.
const aheadFor = 2 * time.Second

// resetRecord drops the versions of a record that can never have been right. The API server answered with a state of the Node after the
// record was read. If the record still holds a later state, it cannot be right. Such a record is from another cluster or from a backup, or
// a client wrote it. The lives of objects do not overlap, and each change gives a Node a greater resourceVersion. It would hide the Node's
// state for ever. If the record may be right, the work is finished.
func (a *attempt) resetRecord(ctx context.Context) (result, error) {
	if a.entry.Record.Newest().Version <= a.node.Version {
		return finished, nil
	}
	if left := a.observations.isAhead(a.node.Name, a.entry.Version); left > 0 {
		a.later(a.node.Name, left)
		return finished, nil
	}
	if !a.mayAct(Action{Step: Reset}) {
		return postponed, nil
	}
	if !a.live {
		return a.readLive(ctx) // whole, and before the Node
	}
	node, err := a.getNode(ctx, a.node.Name)
	if err != nil || node == nil || node.UID != a.node.UID { // the watch will bring another object
		return finished, err
	}
	if rebased, foreign := a.entry.Record.Rebase(a.Cluster(), node.Version); foreign {
		return a.put(ctx, Action{Step: Reset, Write: &rebased})
	}
	a.later(a.node.Name, a.observations.isAhead(a.node.Name, "")) // the watch is late; a heartbeat alone would not lead here again
	return finished, nil
}
