package capture

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

// process deals with one name, and notes for the metrics how that left it.
func (c *Controller) process(ctx context.Context, name string) error {
	c.sightings.takenUp(name)
	dealt := false
	defer func() { c.sightings.leftOff(name, dealt) }() // also after a panic
	dealt, err := c.deal(ctx, name)
	return err
}

// deal deals with objects that went, oldest first, then with the one that lives or, where none does, with its absence.
func (c *Controller) deal(ctx context.Context, name string) (dealt bool, err error) {
	gone, live := c.sightings.look(name)
	for _, last := range gone {
		forgotten, err := c.forgotten(ctx, last)
		if err != nil {
			return false, err
		}
		if !forgotten && last.Fault == nil {
			if dealt, err := c.settle(ctx, last, Deleted); err != nil || !dealt {
				return false, err
			}
		}
		c.sightings.settled(name, last.UID)
		c.refusals.forget(name, last.UID)
		c.reported.forget(last.UID)
	}
	switch {
	case live != nil && live.Fault != nil:
		return false, fmt.Errorf("read node: %w", live.Fault)
	case live != nil:
		return c.settle(ctx, live, Present)
	}
	err = c.settleAbsent(ctx, name)
	return err == nil, err
}

// forgotten reports whether there was a record after an object had gone that was removed since, at the end of its retention
// or by a person. A standby may have seen ends that the leader only knew from a list; it must not bring the record back when
// it leads.
func (c *Controller) forgotten(ctx context.Context, last *Node) (bool, error) {
	if !c.sightings.wasRetained(last.Name, last.UID) {
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

// settleAbsent marks the record of a Node that is gone although nobody saw it go. That it is in no cache proves
// nothing; that the API server says so does.
func (c *Controller) settleAbsent(ctx context.Context, name string) error {
	entry, err := c.Records.Get(name)
	if !c.leading.Load() || err != nil || entry.Record.DeletedAt != nil && entry.Record.Accepted == "" {
		return nil //nolint:nilerr // no record, or none that may be touched: nothing to mark
	}
	switch _, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		_, err := c.settle(ctx, &Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, Absent)
		return err
	case err != nil:
		return fmt.Errorf("look for node %q: %w", name, err)
	default:
		return nil // it lives; the watch will bring it
	}
}

// maxSteps bounds the steps for one sight of a Node; a Node that needs more is contended and comes again later.
const maxSteps = 20

// settle plans and acts until nothing is left to do for one sight of a Node. dealt is false where there is something to do
// but this controller does not lead, or where the record has to wait.
func (c *Controller) settle(ctx context.Context, seen *Node, event Event) (dealt bool, err error) {
	a := &attempt{Controller: c, event: event}
	a.observe(seen)
	defer a.queueAgain()
	if err := a.read(c.Records.Get(seen.Name)); err != nil {
		return false, err
	}
	for range maxSteps {
		if a.unreadable {
			return true, nil
		}
		next := a.plan()
		if event == Present && c.leading.Load() {
			c.reportForeign(a.seen, next.Foreign)
		}
		next = a.afterWaiting(next)
		nothing := next.Step == Nothing && !a.entry.Unlisted
		if nothing && event == Present && c.leading.Load() {
			switch again, err := a.resetRecord(ctx); {
			case err != nil:
				return false, err
			case again:
				continue
			}
		}
		if nothing && (event != Deleted || a.live || a.remembersLater()) {
			if event == Present && a.overtaken() && c.sightings.isOvertaken(a.seen) {
				c.queue.Add(a.seen.Name)
			}
			return !a.coalesced, nil
		}
		if !c.leading.Load() {
			return false, nil
		}
		if nothing { // the last state of an object is not forgotten on the cache's word alone
			if err := a.readLive(ctx); err != nil {
				return false, err
			}
			continue
		}
		if err := a.act(ctx, next); err != nil || a.over {
			return err == nil, err
		}
	}
	return false, errors.New("act on node: it keeps changing")
}
