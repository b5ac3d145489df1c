package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// retained reports whether a record is there only until its retention is over.
func retained(r record.Record) bool { return !r.DeletedAt.IsZero() && !r.Empty() }

// forgotten reports whether there was a record after an object had gone that was removed since, at the end of its retention
// or by an operator. A replica that did not act may have observed ends that the one which did only knew from a list; it must not bring the record
// back later.
func (c *Controller) forgotten(ctx context.Context, last *observe.Node) (bool, error) {
	if !c.observations.wasRetained(last.Name, last.UID) {
		return false, nil
	}
	if _, err := c.Records.Get(last.Name); !errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	switch _, err := c.Records.GetLive(ctx, last.Name); { // it may just not be in memory yet
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	case err == nil, errors.Is(err, store.ErrUnreadable):
		return false, nil
	default:
		return false, err
	}
}

// reconcileAbsent marks the record of a Node that is gone although nobody saw it go. That it is in no cache proves
// nothing; that the API server says so does.
func (c *Controller) reconcileAbsent(ctx context.Context, name string) (done bool, err error) {
	a := &attempt{Controller: c, node: &observe.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, event: Deleted}
	if err := a.read(c.Records.Get(name)); err != nil {
		return false, err
	}
	for range maxSteps {
		next := DecideAbsent(a.entry, c.Now())
		if next.Step == Nothing || !a.found {
			a.nothingDue()
			return true, nil
		}
		if !a.mayAct(next) {
			return false, nil
		}
		switch _, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); {
		case err == nil:
			c.standby.forget(name)
			return true, nil // it lives; the watch will bring it
		case !apierrors.IsNotFound(err):
			return false, fmt.Errorf("look for node %q: %w", name, err)
		}
		if err := a.act(ctx, next); err != nil {
			return false, err
		}
	}
	return false, errors.New("reconcile absent node: its record keeps changing")
}

// aheadFor is how long a record is ahead of its Node before the API server is asked whether that can be. Usually the watch brings a
// later state sooner.
const aheadFor = 2 * time.Second

// resetRecord drops the versions of a record that can never have been right. Where the API server has answered with a state of the Node
// after the record was read, and the record holds a later one, that record is from another cluster or from a backup, or somebody wrote
// it: the lives of objects do not overlap, and each change gives a Node a greater resourceVersion. Such a record would hide
// what the Node shows for ever. again says that there is something new to decide with.
func (a *attempt) resetRecord(ctx context.Context) (again bool, err error) {
	if a.entry.Record.Newest().Version <= a.node.Version {
		return false, nil
	}
	if left := a.observations.isAhead(a.node.Name, a.entry.Version, a.aheadFor); left > 0 {
		a.queue.AddAfter(a.node.Name, left)
		return false, nil
	}
	if !a.mayAct(Action{Step: Reset}) {
		a.ahead = true
		return false, nil
	}
	if !a.live {
		return true, a.readLive(ctx) // whole, and before the Node
	}
	node, err := a.Client.CoreV1().Nodes().Get(ctx, a.node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && node.UID != a.node.UID:
		return false, nil // the watch will bring that
	case err != nil:
		return false, fmt.Errorf("get node %q: %w", a.node.Name, err)
	}
	if rebased, foreign := a.entry.Record.Rebase(a.Cluster(), observe.Of(node).Version); foreign {
		return true, a.put(ctx, Action{Step: Reset, Write: &rebased})
	}
	a.queue.AddAfter(a.node.Name, a.observations.isAhead(a.node.Name, "", a.aheadFor)) // the watch is late; a heartbeat alone would not lead here again
	return false, nil
}
