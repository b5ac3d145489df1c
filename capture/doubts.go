package capture

import (
	"context"
	"errors"
	"time"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// What caches and records say and cannot be taken for granted: the API server is asked before anything follows from it.

// retained reports whether a record is there only until its retention is over.
func retained(r record.Record) bool { return !r.DeletedAt.IsZero() && !r.Empty() }

// forgotten reports whether there was a record after an object was deleted that was removed since, at the end of its retention
// or by an operator. A replica that did not act may have observed ends that the one which did only knew from a list; it must not bring the record
// back later.
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

// aheadFor is how long a record is ahead of its Node before the API server is asked whether that can be. Usually the watch brings a
// later state sooner.
const aheadFor = 2 * time.Second

// resetRecord drops the versions of a record that can never have been right. Where the API server has answered with a state of the Node
// after the record was read, and the record holds a later one, that record is from another cluster or from a backup, or a client wrote
// it: the lives of objects do not overlap, and each change gives a Node a greater resourceVersion. Such a record would hide
// what the Node shows for ever. The work is finished where the record may be right.
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
