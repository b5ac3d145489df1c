package capture

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// act carries out one action. The next decision uses the state that it reads.
func (a *attempt) act(ctx context.Context, next Action) (result, error) {
	if next.Step == Nothing {
		next = Action{Step: Update, Write: &a.entry.Record}
	}
	switch {
	case next.Write == nil && !a.live: // never change a Node on the cache's word alone
		return a.readLive(ctx)
	case next.Write == nil && a.corrects(next.Plan):
		if allowed, err := a.mayCorrect(ctx); err != nil {
			return again, err
		} else if !allowed {
			return a.withoutCorrections(ctx, next)
		}
		a.corrected = true
		return a.act(ctx, next)
	case next.Write == nil && a.keyByKey:
		return a.change(ctx, next.Step, next.First())
	case next.Write == nil:
		return a.change(ctx, next.Step, next.Plan)
	case next.Write.Omitted():
		return a.readLive(ctx) // only records that have a history cost that
	case a.event == Absent: // that it is in no cache proves nothing; that the API server says so does
		node, err := a.getNode(ctx, a.node.Name)
		if err != nil {
			return postponed, err
		}
		if node != nil { // the watch is late; if the Node is deleted before the next list, it never brings this object
			a.standby.forget(a.node.Name)
			a.later(a.node.Name, aheadFor)
			return postponed, nil
		}
	}
	return a.put(ctx, next)
}

// vanished reports whether the Node lacks a record that it was restored from, and that is not reported yet.
func (a *attempt) vanished() bool {
	stamp, _ := a.node.Stamp(a.Guard.InForce())
	return a.event == Present && !a.lost && len(stamp.Given) > 0 && stamp.Followed == ""
}

// put writes the record over the one that was decided on.
func (a *attempt) put(ctx context.Context, next Action) (result, error) {
	if next.Step == Create && a.vanished() {
		a.reportVanished(a.node)
	}
	if next.Step == Follow {
		a.following.Lock()
		defer a.following.Unlock()
		if result, err := a.mayFollow(ctx, next.Write.Followed); err != nil || result != finished {
			return result, err
		}
	}
	entry, err := a.Records.Put(ctx, *next.Write, a.entry.Version)
	if errors.Is(err, store.ErrConflict) {
		a.Metrics.conflicts.WithLabelValues(recordConflict).Inc()
		a.standby.conflict()
		return a.readLive(ctx)
	}
	if err != nil {
		a.reportNearlyFull(*next.Write, a.node)
		return a.unwritten(ctx, next, err)
	}
	if a.coalesces(next) {
		a.coalescer.Wrote(a.node.Name, a.Now())
	}
	before := a.entry.Record
	a.entry, a.found, a.live, a.failed = entry, true, true, nil
	a.observations.hasRecord(a.node.Name, retained(entry.Record))
	a.reportWrite(next.Step, before, entry.Record, a.node)
	if next.Step == Follow {
		a.reportFollowed(entry.Record)
	}
	return again, nil
}

// unwritten goes on with a record that cannot be written, where a Node would wait for it behind the gate. What the Node shows then is observed
// again, and the record is tried again. A record that decides more than this Node's items is written first all the same.
func (a *attempt) unwritten(ctx context.Context, next Action, err error) (result, error) {
	waits := a.event == Present && a.Policy().Gate().On(a.node.Taints) && a.failed == nil && !a.ending.Load()
	switch step := next.Step; {
	case !waits || step != Create && step != Update && step != Adopt:
		return again, err
	case !a.live:
		return a.readLive(ctx)
	}
	a.Logger.Warn("record cannot be written; the node is restored and opened all the same", "node", a.node.Name, "error", err)
	a.failed, a.entry.Record, a.found = err, *next.Write, true
	return again, nil
}

// change makes one PATCH of exactly the state that was decided on.
func (a *attempt) change(ctx context.Context, step Step, change plan.Plan) (result, error) {
	if len(change.Owners) > 0 && change.ManagedFields == nil {
		return a.readNode(ctx)
	}
	node, err := a.patch(ctx, change)
	switch {
	case err == nil:
		a.node = node
		a.hasSet(change.Settings())
		a.accepted(a.node.UID, change)
		a.reportChange(step, change, a.node)
		if a.failed != nil && !a.Policy().Gate().On(a.node.Taints) {
			return postponed, a.failed // the next try begins with the record as it is
		}
		return again, nil
	case store.SaysGone(err):
		return finished, nil // the watch will bring its end
	case apierrors.IsConflict(err) && a.failed != nil:
		return postponed, a.failed
	case apierrors.IsConflict(err):
		a.Metrics.conflicts.WithLabelValues(nodeConflict).Inc()
		return a.readNode(ctx)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return a.refused(ctx, change, err)
	default:
		return again, fmt.Errorf("patch node %q: %w", a.node.Name, err)
	}
}

func (a *attempt) patch(ctx context.Context, change plan.Plan) (*observe.Node, error) {
	body, err := PatchFor(a.node, change)
	if err != nil {
		return nil, err
	}
	node, err := a.Client.CoreV1().Nodes().Patch(ctx, a.node.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: observe.FieldManager})
	if err != nil {
		return nil, err
	}
	n := a.whole(node)
	return n, n.Fault
}

// retained reports whether a record is there only until its retention is over.
func retained(r record.Record) bool { return !r.DeletedAt.IsZero() && !r.Empty() }

// read notes the record, or that there is none.
func (a *attempt) read(entry store.Entry, err error) error {
	a.entry, a.found, a.unreadable = entry, err == nil, errors.Is(err, store.ErrUnreadable)
	switch {
	case a.found:
		a.observations.hasRecord(a.node.Name, retained(entry.Record))
	case a.unreadable:
		a.reportUnreadable(a.node, entry.Version, err)
		return nil
	case errors.Is(err, store.ErrNotFound):
		a.entry = store.Entry{}
		return nil
	}
	return err
}

func (a *attempt) readLive(ctx context.Context) (result, error) {
	a.live = true
	a.observations.unsettle(a.node.Name)
	return again, a.read(a.Records.GetLive(ctx, a.node.Name))
}

// hasSet notes what was set on the Node.
func (a *attempt) hasSet(settings []plan.Setting) {
	for _, set := range settings {
		a.fights.Done(a.node.UID, set, a.Now())
	}
}

// readNode reads the Node live. If it is deleted or another object has taken the name, the watch will bring that.
func (a *attempt) readNode(ctx context.Context) (result, error) {
	node, err := a.getNode(ctx, a.node.Name)
	if err != nil || node == nil || node.UID != a.node.UID {
		return finished, err
	}
	a.node = node
	a.live = false // the client that changed the Node may have written the record before
	return again, node.Fault
}

// getNode returns the Node of that name as it is now; nil where there is none.
func (c *Controller) getNode(ctx context.Context, name string) (*observe.Node, error) {
	c.observations.unsettle(name)
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case store.SaysGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get node %q: %w", name, err)
	}
	return c.whole(node), nil
}

// whole returns a Node that the API server has just returned. Only such a one has managedFields that a PATCH can send back.
func (c *Controller) whole(object *corev1.Node) *observe.Node {
	node := observe.OfKeeping(object, c.Policy().Annotations())
	node.ManagedFields = object.ManagedFields
	return node
}
