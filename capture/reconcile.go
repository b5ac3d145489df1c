package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// reconcile works on one name. It starts with the deleted objects, oldest first, then the live object or, without one, its absence. Before all that, an
// emergency opens the live object. If something is left to do, by another replica or after a wait, done is false.
func (c *Controller) reconcile(ctx context.Context, name string) (done bool, err error) {
	gone, live := c.observations.states(name)
	live, opened, failed := c.openFirst(ctx, live)
	if done, err := c.reconcileDeleted(ctx, name, gone); err != nil || !done {
		return false, errors.Join(failed, err)
	}
	switch {
	case failed != nil || opened == postponed:
		return false, failed
	case live == nil:
		c.compliance.Forget(name)
		return c.reconcileNode(ctx, &observe.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, Absent)
	case live.Fault != nil:
		return false, fmt.Errorf("read node: %w", live.Fault)
	case live.Keep != c.Policy().Annotations() && c.leading.Load():
		if live, err = c.readAnnotations(ctx, live); err != nil || live == nil {
			return err == nil, err
		}
	}
	return c.reconcileNode(ctx, live, Present)
}

// reconcileDeleted works on the deleted objects of one name.
func (c *Controller) reconcileDeleted(ctx context.Context, name string, gone []*observe.Node) (done bool, err error) {
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
		c.observations.forgetDeleted(name, last.UID)
		c.refusals.Forget(last.UID)
		c.notices.Forget(last.UID)
		c.labelPace.Forget(name)
		c.compliance.Forget(name)
	}
	return true, nil
}

// forgotten reports whether a record existed after the deletion of an object and was removed since, at the end of its retention or by an operator. A
// standby replica that still has the deletion queued must not write the record again.
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

// openFirst removes the gate of a live Node if an emergency is declared, before any record is read, so that nothing in a record can prevent it. It returns
// the Node as it is afterwards.
func (c *Controller) openFirst(ctx context.Context, live *observe.Node) (node *observe.Node, done result, err error) {
	a := &attempt{Controller: c, node: live, event: Present}
	for range maxSteps {
		if a.node == nil || a.node.Fault != nil {
			return a.node, finished, nil //nolint:nilerr // what follows reports a fault of the Node
		}
		opening, opens := openingOf(a.Policy(), a.node, Present)
		if !opens {
			return a.node, finished, nil
		}
		inMemory, _ := a.Records.Get(a.node.Name) // by its version, replicas see each other's work
		a.entry.Version, a.entryLive = inMemory.Version, true
		if result, err := a.actIfAllowed(ctx, opening); err != nil || result != retry {
			return a.node, result, err
		}
	}
	return a.node, postponed, errors.New("reconcile node: its gate keeps changing")
}

// readAnnotations reads a Node once more that the watch brought while the policy kept other annotations. Memory holds only those. Most Nodes
// need no such read after a change of the policy: the next report of their kubelets brings them. It is nil where the watch will bring another state.
func (c *Controller) readAnnotations(ctx context.Context, live *observe.Node) (*observe.Node, error) {
	node, err := c.getNode(ctx, live.Name)
	if err != nil || node == nil || node.UID != live.UID {
		return nil, err
	}
	c.observations.replaceLive(observe.SlimOf(node))
	return node, node.Fault
}

// maxSteps bounds the steps for one observation of a Node. A Node that needs more is contended and is queued again later.
const maxSteps = 20

// reconcileNode decides and acts until nothing is left to do for one observation of a Node.
func (c *Controller) reconcileNode(ctx context.Context, node *observe.Node, event Event) (done bool, err error) {
	a := &attempt{Controller: c, node: node, event: event}
	if err := a.read(c.Records.Get(node.Name)); err != nil {
		return false, err
	}
	for range maxSteps {
		if result, err := a.step(ctx); err != nil || result != retry {
			err = cmp.Or(err, a.writeErr)
			return err == nil && result == finished, err
		}
	}
	return false, errors.New("reconcile node: it keeps changing")
}

// attempt is the work on one observation of one Node: what is known now, and the steps that change it.
type attempt struct {
	*Controller

	node  *observe.Node
	event Event

	entry      store.Entry
	hasRecord  bool  // there is a record
	unreadable bool  // there is one, but nothing may be taken from it
	entryLive  bool  // entry is the API server's answer, not the cache's
	writeErr   error // why the record could not be written; the Node is restored from what was to be written
	lost       bool  // a client took the record away, which is reported
	corrected  bool  // the Node counts as corrected; see [brake.Brake]
	keyByKey   bool  // items are given one by one, to find out which is refused
	mayWrite   bool  // this replica acts; see [pace.Standby]
	hadTurn    bool  // it is this Node's turn; see [pace.LabelPace]
}

// result is how the work continues after a step.
type result int

const (
	retry     result = iota // there is something new to decide with
	finished                // nothing is left to do for this observation
	postponed               // something is left to do: by another replica, or after a wait
)

// step decides what is to be done next, and does it if this replica may do it now. Nothing is done with a record that cannot be read.
func (a *attempt) step(ctx context.Context) (result, error) {
	if a.unreadable {
		a.standby.Forget(a.node.Name)
		return finished, nil
	}
	next := a.decide()
	if next.Requeue > 0 {
		a.requeueAfter(a.node.Name, next.Requeue)
	}
	if !a.idle(next) {
		return a.actIfAllowed(ctx, next)
	}
	return a.lookAgain(ctx)
}

// decide returns the next action by what is known now, and when to decide again.
func (a *attempt) decide() Action {
	p, now := a.Policy(), a.Now()
	features := a.features.factsOf(a.node.Name, p) // read before a.holds: rules that were judged without features are held again as soon as features are known
	in := plan.Circumstances{
		Policy: p.Holding(a.holds(p)), Guarded: a.Guard.InForce(), Cluster: a.Cluster(), Now: now,
		Devices: a.devices.factsByNode(p), Features: func(string) observe.Features { return features }, Inventory: a.inventories.FactsFunc(p, nil),
	}
	var refused, due time.Duration // how long what is refused waits, and the taint of a Node that breaks a rule of governance
	in.Refused, refused = a.refusals.Waiting(a.node.UID, now)
	switch a.event {
	case Absent:
		return DecideAbsent(a.entry, a.hasRecord, in)
	case Deleted:
		return Decide(a.entry, a.hasRecord, a.node, a.event, in)
	}
	var former predecessor
	if _, transition := a.node.Transition(a.entry.Record, in.Policy, now); (!a.hasRecord || transition == policy.Begins) && p.Follows() && !a.node.Deleting() {
		switch former = a.followed(); {
		case former.pendingNode != "":
			return Action{Step: NoStep, Plan: plan.Plan{Requeue: followRetry}}
		case a.hasRecord:
			in.Predecessor = &former.record
		default:
			a.entry = store.Entry{Record: former.record}
		}
		in.Ambiguous = len(former.candidates) > 0
	}
	violations := plan.Violations(a.entry.Record, a.node, in)
	in.Overdue, due = a.compliance.Overdue(a.node.Name, a.node.UID, violations, now)
	next := Decide(a.entry, a.hasRecord, a.node, a.event, in)
	next.Requeue = soonest(next.Requeue, refused, due)
	if a.leading.Load() {
		a.reportDecision(a.node, next, former.candidates, violations)
	}
	return next
}

// lookAgain looks once more before nothing is done.
func (a *attempt) lookAgain(ctx context.Context) (result, error) {
	behind := a.node.Version > a.entry.Record.Observed(a.node.UID)
	switch {
	case a.event == Deleted && behind && !a.entryLive: // the last state of an object is not forgotten on the cache's word alone
		return a.readLive(ctx)
	case a.event == Present && a.hasRecord:
		if result, err := a.resetRecord(ctx); err != nil || result != finished {
			return result, err
		}
	}
	// Items that another replica has set count in a fight, as if this replica had set them.
	a.noteSettings(a.standby.Settle(a.node.Name, a.entry.Version, a.node.Items, a.Now()))
	return finished, nil
}

// aheadFor is how long a record is ahead of its Node before capture asks the API server. Usually the watch brings a later state sooner.
const aheadFor = 2 * time.Second

// resetRecord drops the versions of a record that claims a later state of the Node than the API server has. Such a record is from another cluster, from
// a backup or from a client, and would hide every change of the Node. The Node is read after the record, and each change gives it a greater
// resourceVersion, so a right record cannot be ahead of it. While the watch may just be late, resetRecord waits.
func (a *attempt) resetRecord(ctx context.Context) (result, error) {
	if a.entry.Record.Newest().Version <= a.node.Version {
		return finished, nil
	}
	if left := a.observations.noteAhead(a.node.Name, a.entry.Version); left > 0 {
		a.requeueAfter(a.node.Name, left)
		return finished, nil
	}
	if !a.mayAct(Action{Step: Reset}) {
		return postponed, nil
	}
	if !a.entryLive {
		return a.readLive(ctx) // whole, and before the Node
	}
	node, err := a.getNode(ctx, a.node.Name)
	if err != nil || node == nil || node.UID != a.node.UID { // the watch will bring another object
		return finished, err
	}
	if rebased, foreign := a.entry.Record.Rebase(a.Cluster(), node.Version); foreign {
		return a.put(ctx, Action{Step: Reset, Write: &rebased})
	}
	a.requeueAfter(a.node.Name, a.observations.noteAhead(a.node.Name, "")) // the watch is late; a heartbeat alone would not lead here again
	return finished, nil
}
