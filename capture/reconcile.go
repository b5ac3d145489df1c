package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// reconcile works on one name: the objects that are gone, oldest first, then the one that lives or, where none does, its absence. done is
// false where something is left to do: by another replica, or after a wait.
func (c *Controller) reconcile(ctx context.Context, name string) (done bool, err error) {
	gone, live := c.observations.look(name)
	for _, last := range gone {
		forgotten, err := c.forgotten(ctx, last)
		if err != nil {
			return false, err
		}
		if !forgotten && last.Fault == nil {
			if done, err := c.reconcileNode(ctx, last, Deleted); err != nil || !done {
				return false, err
			}
		}
		c.observations.settled(name, last.UID)
		c.refusals.forget(name, last.UID)
		c.reported.forget(last.UID)
	}
	switch {
	case live == nil:
		return c.reconcileAbsent(ctx, name)
	case live.Fault != nil:
		return false, fmt.Errorf("read node: %w", live.Fault)
	default:
		return c.reconcileNode(ctx, live, Present)
	}
}

// maxSteps bounds the actions for one observation of a Node; a Node that needs more is contended and comes again later.
const maxSteps = 20

// attempt is the work on one observation of one Node: what is known now, and the actions that change it.
type attempt struct {
	*Controller

	node  *observe.Node
	event Event

	entry      store.Entry
	found      bool // there is a record
	unreadable bool // there is one, but nothing may be taken from it
	live       bool // entry is the API server's answer, not the cache's
	keyByKey   bool // items are given one by one, to find out which is refused
	over       bool // the Node is not the one that was observed any more
	acts       bool // this replica acts; see [standby]

	wait      time.Duration // until what has to wait may be done
	coalesced bool          // the record has to wait
	ahead     bool          // the record is ahead of the Node, and another replica is to find out why
}

// reconcileNode decides and acts until nothing is left to do for one observation of a Node.
func (c *Controller) reconcileNode(ctx context.Context, node *observe.Node, event Event) (done bool, err error) {
	a := &attempt{Controller: c, node: node, event: event}
	defer a.queueAgain()
	if err := a.read(c.Records.Get(node.Name)); err != nil {
		return false, err
	}
	for range maxSteps {
		if a.unreadable {
			c.standby.forget(node.Name)
			return true, nil
		}
		next := a.decide()
		if next.Step == Nothing && !a.entry.Unlisted {
			switch checked, err := a.check(ctx); {
			case err != nil || a.ahead:
				return false, err
			case checked:
				a.nothingDue()
				return true, nil
			}
			continue
		}
		if !a.mayAct(next) {
			return false, nil
		}
		if next = a.afterWaiting(next); next.Step == Nothing && !a.entry.Unlisted {
			return !a.coalesced, nil
		}
		if err := a.act(ctx, next); err != nil || a.over {
			return err == nil, err
		}
	}
	return false, errors.New("reconcile node: it keeps changing")
}

// read takes in a record, or that there is none.
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

func (a *attempt) readLive(ctx context.Context) error {
	a.live = true
	return a.read(a.Records.GetLive(ctx, a.node.Name))
}

func (a *attempt) decide() Action {
	next := Decide(a.entry, a.found, a.node, a.event, Circumstances{
		Policy: a.Policy(), Guarded: a.Guard.InForce(), Cluster: a.Cluster(), Refused: a.refusals.of(a.node.Name, a.node.UID), Now: a.Now(),
	})
	if a.event == Present && a.leading.Load() {
		a.reportForeign(a.node, next.Foreign)
	}
	return next
}

// check looks once more before nothing is done. checked is false where there is something new to decide with.
func (a *attempt) check(ctx context.Context) (checked bool, err error) {
	behind := a.node.Version > a.entry.Record.Observed(a.node.UID)
	switch {
	case a.event == Deleted && behind && !a.live: // the last state of an object is not forgotten on the cache's word alone
		return false, a.readLive(ctx)
	case a.event == Present && a.found:
		again, err := a.resetRecord(ctx)
		return !again, err
	default:
		return true, nil
	}
}

// act carries out one action. What it learns on the way is there for the next decision.
func (a *attempt) act(ctx context.Context, next Action) error {
	switch {
	case next.Write != nil && omitted(*next.Write):
		return a.readLive(ctx) // only records that have a history cost that
	case next.Write != nil:
		return a.put(ctx, next)
	case next.Step == Nothing: // the record is right, but its ConfigMap has lost the label that the informer selects on
		return a.put(ctx, Action{Step: Update, Write: &a.entry.Record})
	case !a.live:
		return a.readLive(ctx) // never change a Node on the cache's word alone
	case a.keyByKey:
		next.Change = next.first()
	}
	return a.change(ctx, next.Step, next.Change)
}

// omitted reports whether a record was read without its history, so that it cannot be written.
func omitted(r record.Record) bool {
	return r.HistoryOmitted || r.Quarantined != nil && r.Quarantined.HistoryOmitted
}

func (a *attempt) put(ctx context.Context, next Action) error {
	if next.Step == Create && a.observations.lostRecord(a.node.Name) {
		a.reportVanished(a.node)
	}
	counts := a.coalesces(next)
	entry, err := a.Records.Put(ctx, *next.Write, a.entry.Version)
	if errors.Is(err, store.ErrConflict) {
		a.Metrics.conflicted(recordConflict)
		a.standby.conflict()
		return a.readLive(ctx)
	}
	if err != nil {
		return err
	}
	before := a.entry.Record
	a.entry, a.found, a.live = entry, true, true
	if counts {
		a.coalescer.wrote(a.node.Name, a.Now())
	}
	a.observations.hasRecord(a.node.Name, retained(entry.Record))
	a.reportWrite(next.Step, before, entry.Record, a.node)
	return nil
}

// change makes one PATCH of exactly the state that was decided on.
func (a *attempt) change(ctx context.Context, step Step, change Change) error {
	node, err := a.patch(ctx, change)
	switch {
	case err == nil:
		a.node = node
		a.hasSet(change)
		a.reportChange(step, change, a.node)
		return nil
	case apierrors.IsNotFound(err):
		a.over = true // the watch will bring its end
		return nil
	case apierrors.IsConflict(err):
		a.Metrics.conflicted(nodeConflict)
		return a.readNode(ctx)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return a.refused(ctx, change, err)
	default:
		return fmt.Errorf("patch node %q: %w", a.node.Name, err)
	}
}

func (a *attempt) patch(ctx context.Context, change Change) (*observe.Node, error) {
	body, err := PatchFor(a.node, change, a.Policy().Gate())
	if err != nil {
		return nil, err
	}
	node, err := a.Client.CoreV1().Nodes().Patch(ctx, a.node.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: observe.FieldManager})
	if err != nil {
		return nil, err
	}
	n := observe.Of(node)
	return n, n.Fault
}

// readNode reads the Node live; if another object has taken the name, its own event will come.
func (a *attempt) readNode(ctx context.Context) error {
	node, err := a.Client.CoreV1().Nodes().Get(ctx, a.node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		a.over = true
	case err != nil:
		return fmt.Errorf("get node %q: %w", a.node.Name, err)
	case node.UID != a.node.UID:
		a.over = true
	default:
		a.node = observe.Of(node)
		if a.node.Fault != nil {
			return a.node.Fault
		}
		a.live = false // whoever changed the Node may have written the record before
	}
	return nil
}

// refused deals with a PATCH that the API server has refused. A wrong uid is refused too: then another object has the
// name. Otherwise the same PATCH is tried a few rounds more, and then key by key, to find out which items are refused.
func (a *attempt) refused(ctx context.Context, change Change, refusal error) error {
	uid := a.node.UID
	if err := a.readNode(ctx); err != nil || a.over {
		return err
	}
	refusal = fmt.Errorf("patch node %q: %w", a.node.Name, refusal)
	if a.refusals.count(a.node.Name, uid) < roundsBeforeKeyByKey || len(change.keys()) == 0 {
		return refusal
	}
	if len(change.keys()) > 1 || change.LiftGate || len(change.Put)+len(change.Take) > 0 {
		a.keyByKey = true // decided again first: the Node may not be what the change was made for
		return nil
	}
	return a.refuse(ctx, change, refusal)
}

// refuse gives up the only item of a change for this object, if it is the item that is refused and not every change of the Node.
func (a *attempt) refuse(ctx context.Context, change Change, refusal error) error {
	key := change.keys()[0]
	node, err := a.patch(ctx, Change{Register: change.Register, Stamp: change.Stamp})
	if err != nil {
		return refusal
	}
	a.node = node
	a.refusals.add(a.node.Name, a.node.UID, key)
	a.reportRefused(a.node, key, refusal)
	return nil
}
