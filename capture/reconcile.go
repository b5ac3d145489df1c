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
	deleted, live := c.observations.get(name)
	live, gateResult, failed := c.liftGateInEmergency(ctx, live)
	if done, err := c.reconcileDeleted(ctx, name, deleted); err != nil || !done {
		return false, errors.Join(failed, err)
	}
	switch {
	case failed != nil || gateResult == postponed:
		return false, failed
	case live == nil:
		c.compliance.Forget(name)
		return c.reconcileNode(ctx, &observe.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, NodeAbsent)
	case live.Fault != nil:
		return false, fmt.Errorf("read node: %w", live.Fault)
	case live.ReadAnnotations != c.Policy().Annotations() && c.leading.Load():
		if live, err = c.readAnnotations(ctx, live); err != nil || live == nil {
			return err == nil, err
		}
	}
	return c.reconcileNode(ctx, live, NodePresent)
}

// reconcileDeleted works on the deleted objects of one name.
func (c *Controller) reconcileDeleted(ctx context.Context, name string, deleted []*observe.Node) (done bool, err error) {
	for _, node := range deleted {
		removed, err := c.deliberatelyRemovedSince(ctx, node)
		if err != nil {
			return false, err
		}
		if !removed && node.Fault == nil {
			if done, err := c.reconcileNode(ctx, node, NodeDeleted); err != nil || !done {
				return false, err
			}
		}
		c.observations.forgetDeleted(name, node.UID)
		c.refusals.Forget(node.UID)
		c.notices.Forget(node.UID)
		c.ruleChangeLimiter.Forget(name)
		c.compliance.Forget(name)
	}
	return true, nil
}

// deliberatelyRemovedSince reports whether a record existed after the deletion of an object and was removed since, at the end of its retention or by an operator. A
// standby replica that still has the deletion queued must not write the record again.
func (c *Controller) deliberatelyRemovedSince(ctx context.Context, deleted *observe.Node) (bool, error) {
	if !c.observations.hadRecordAfterDeletion(deleted.Name, deleted.UID) {
		return false, nil
	}
	_, err := c.Records.Get(deleted.Name)
	if errors.Is(err, store.ErrNotFound) { // it may just not be in memory yet
		_, err = c.Records.GetFromAPI(ctx, deleted.Name)
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

// liftGateInEmergency removes the gate of a live Node if an emergency is declared, before any record is read, so that nothing in a record can prevent it. It returns
// the Node as it is afterwards.
func (c *Controller) liftGateInEmergency(ctx context.Context, live *observe.Node) (node *observe.Node, gateResult result, err error) {
	w := &nodeWork{Controller: c, node: live, presence: NodePresent}
	for range maxSteps {
		if w.node == nil || w.node.Fault != nil {
			return w.node, finished, nil //nolint:nilerr // what follows reports a fault of the Node
		}
		lift, lifts := emergencyLift(w.Policy(), w.node, NodePresent)
		if !lifts {
			return w.node, finished, nil
		}
		inMemory, _ := w.Records.Get(w.node.Name) // only its version is used: a standby sees by it that another replica works on the Node
		w.entry.Version, w.entryFromAPI = inMemory.Version, true
		if result, err := w.actIfAllowed(ctx, lift); err != nil || result != decideAgain {
			return w.node, result, err
		}
	}
	return w.node, postponed, errors.New("reconcile node: its gate keeps changing")
}

// readAnnotations reads a Node from the API server whose copy in memory lacks annotations that the policy keeps: it came from the watch while the policy kept
// other annotations, and memory has only those that the policy keeps. After a change of the policy most Nodes need no such read, since the next status update
// of their kubelets brings them. The result is nil if the watch is about to bring another object or the deletion.
func (c *Controller) readAnnotations(ctx context.Context, live *observe.Node) (*observe.Node, error) {
	node, err := c.getNode(ctx, live.Name)
	if err != nil || node == nil || node.UID != live.UID {
		return nil, err
	}
	c.observations.replaceLive(observe.CompactNodeOf(node))
	return node, node.Fault
}

// maxSteps bounds the steps for one observation of a Node. A Node that needs more is contended and is queued again later.
const maxSteps = 20

// reconcileNode decides and acts until nothing is left to do for one observation of a Node.
func (c *Controller) reconcileNode(ctx context.Context, node *observe.Node, presence Presence) (done bool, err error) {
	w := &nodeWork{Controller: c, node: node, presence: presence}
	if err := w.noteEntry(c.Records.Get(node.Name)); err != nil {
		return false, err
	}
	for range maxSteps {
		if result, err := w.step(ctx); err != nil || result != decideAgain {
			err = cmp.Or(err, w.writeErr)
			return err == nil && result == finished, err
		}
	}
	return false, errors.New("reconcile node: it keeps changing")
}

// nodeWork is the work on one observation of one Node: what is known now, and the steps that change it.
type nodeWork struct {
	*Controller

	node     *observe.Node
	presence Presence

	entry             store.Entry
	hasRecord         bool  // there is a record
	unreadable        bool  // there is one, but nothing may be taken from it
	entryFromAPI      bool  // entry is the API server's answer, not the cache's
	writeErr          error // why the record could not be written; the Node is restored from what was to be written
	vanishedReported  bool  // a client took the record away, which is reported
	correctionCounted bool  // the Node counts as corrected; see [brake.Brake]
	itemByItem        bool  // items are given one by one, to find out which is refused
	acts              bool  // this replica acts; see [pace.Standby]
	hadTurn           bool  // it is this Node's turn; see [pace.RuleChangeLimiter]
}

// result is how the work continues after a step.
type result int

const (
	decideAgain result = iota // there is something new to decide with
	finished                  // nothing is left to do for this observation
	postponed                 // something is left to do: by another replica, or after a wait
)

// step decides what is to be done next, and does it if this replica may do it now. Nothing is done with a record that cannot be read.
func (w *nodeWork) step(ctx context.Context) (result, error) {
	if w.unreadable {
		w.standby.Forget(w.node.Name)
		return finished, nil
	}
	next := w.decide()
	if next.RequeueAfter > 0 {
		w.requeueAfter(w.node.Name, next.RequeueAfter)
	}
	if !w.nothingToDo(next) {
		return w.actIfAllowed(ctx, next)
	}
	return w.lookAgain(ctx)
}

// decide returns the next action by what is known now, and when to decide again.
func (w *nodeWork) decide() Action {
	p, now := w.Policy(), w.Now()
	features := w.features.factsOf(w.node.Name, p) // read before rulesHeld: rules that were judged without features are held again as soon as features are known
	inputs := plan.Inputs{
		Policy: p.WithRulesHeld(w.rulesHeld(p)), GuardInForce: w.Guard.InForce(), ClusterUID: w.ClusterUID(), Now: now,
		Devices: w.devices.factsByNode(p), Features: func(string) observe.Features { return features }, Inventory: w.inventories.FactsFunc(p, nil),
	}
	var refusedWait, overdueIn time.Duration // how long what is refused waits, and the taint of a Node that breaks a rule of governance
	inputs.Refused, refusedWait = w.refusals.Waiting(w.node.UID, now)
	bootWait := w.boots.Wait(w.node.Name, now)
	inputs.BootWaits = bootWait > 0 || inputs.Refused[policy.StampAnnotation]
	switch w.presence {
	case NodeAbsent:
		return DecideAbsent(w.entry, w.hasRecord, inputs)
	case NodeDeleted:
		return Decide(w.entry, w.hasRecord, w.node, w.presence, inputs)
	}
	var former predecessor
	if _, transition := w.node.Transition(w.entry.Record, inputs.Policy, now); (!w.hasRecord || transition == policy.NewMachine) && p.Follows() && !w.node.Deleting() {
		switch former = w.findPredecessor(); {
		case former.pendingNode != "":
			return Action{Step: NoStep, Plan: plan.Plan{RequeueAfter: followRetry}}
		case w.hasRecord:
			inputs.Predecessor = &former.record
		default:
			w.entry = store.Entry{Record: former.record}
		}
		inputs.MachineAmbiguous = len(former.candidates) > 0
	}
	violations := plan.Violations(w.entry.Record, w.node, inputs)
	inputs.ViolationOverdue, overdueIn = w.compliance.Overdue(w.node.Name, w.node.UID, violations, now)
	next := Decide(w.entry, w.hasRecord, w.node, w.presence, inputs)
	next.RequeueAfter = soonest(next.RequeueAfter, refusedWait, bootWait, overdueIn)
	if w.leading.Load() {
		w.reportDecision(w.node, next, former.candidates, violations)
	}
	return next
}

// lookAgain looks once more before nothing is done.
func (w *nodeWork) lookAgain(ctx context.Context) (result, error) {
	behind := w.node.Version > w.entry.Record.Observed(w.node.UID)
	switch {
	case w.presence == NodeDeleted && behind && !w.entryFromAPI: // the last state of an object is not forgotten on the cache's word alone
		return w.readRecordFromAPI(ctx)
	case w.presence == NodePresent && w.hasRecord:
		if result, err := w.resetRecord(ctx); err != nil || result != finished {
			return result, err
		}
	}
	// What another replica has set or noted counts for fights and pauses, as if this replica had done it.
	stamp, _ := w.node.Stamp(w.Guard.InForce())
	setByOthers, notedByOthers := w.standby.Settle(w.node.Name, w.entry.Version, w.node.Items, stamp.Boot, w.Now())
	w.noteSetItems(setByOthers)
	if notedByOthers {
		w.boots.Wrote(w.node.Name, w.Now())
	}
	return finished, nil
}

// watchGrace is how long a record is ahead of its Node before capture asks the API server. Usually the watch brings a later state sooner.
const watchGrace = 2 * time.Second

// resetRecord drops the versions of a record that claims a later state of the Node than the API server has. Such a record is from another cluster, from
// a backup or from a client, and would hide every change of the Node. The Node is read after the record, and each change gives it a greater
// resourceVersion, so a right record cannot be ahead of it. While the watch may just be late, resetRecord waits.
func (w *nodeWork) resetRecord(ctx context.Context) (result, error) {
	if w.entry.Record.Newest().Version <= w.node.Version {
		return finished, nil
	}
	if left := w.observations.noteAhead(w.node.Name, w.entry.Version); left > 0 {
		w.requeueAfter(w.node.Name, left)
		return finished, nil
	}
	if !w.mayAct(Action{Step: StepResetVersions}) {
		return postponed, nil
	}
	if !w.entryFromAPI {
		return w.readRecordFromAPI(ctx) // whole, and before the Node
	}
	node, err := w.getNode(ctx, w.node.Name)
	if err != nil || node == nil || node.UID != w.node.UID { // the watch will bring another object
		return finished, err
	}
	if rebased, versionsDropped := w.entry.Record.Rebase(w.ClusterUID(), node.Version); versionsDropped {
		return w.put(ctx, Action{Step: StepResetVersions, Record: &rebased})
	}
	w.requeueAfter(w.node.Name, w.observations.noteAhead(w.node.Name, "")) // the watch is late, and the next status update of the kubelet need not lead to another reconciliation
	return finished, nil
}
