package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// act carries out one action. The next decision uses the state that it reads.
func (w *nodeWork) act(ctx context.Context, next Action) (result, error) {
	switch {
	case next.Record == nil && w.itemByItem:
		return w.patchNode(ctx, next.Step, next.OnlyFirstItem())
	case next.Record == nil:
		return w.patchNode(ctx, next.Step, next.Plan)
	case next.Record.Omitted():
		return w.readRecordFromAPI(ctx) // a record that was read without its history cannot be written; the cache leaves histories out
	case w.presence == NodeAbsent: // the cache does not prove that the Node is absent: ask the API server
		node, err := w.getNode(ctx, w.node.Name)
		if err != nil {
			return postponed, err
		}
		if node != nil { // the watch is late; if the Node is deleted before the next list, it never brings this object
			w.standby.Forget(w.node.Name)
			w.requeueAfter(w.node.Name, watchGrace)
			return postponed, nil
		}
	}
	return w.put(ctx, next)
}

// patchNode makes one PATCH of exactly the state that was decided on.
func (w *nodeWork) patchNode(ctx context.Context, step Step, change plan.Plan) (result, error) {
	if len(change.RestoredOwners) > 0 && change.ManagedFields == nil {
		return w.readNode(ctx)
	}
	err := w.sendPatch(ctx, change)
	switch {
	case err == nil:
	case store.IsGone(err):
		return finished, nil // the watch will bring its end
	case apierrors.IsConflict(err) && w.writeErr != nil:
		return postponed, w.writeErr
	case apierrors.IsConflict(err):
		w.Metrics.errors.WithLabelValues(nodeConflict).Inc()
		return w.readNode(ctx)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return w.handleRefusal(ctx, change, err)
	default:
		return decideAgain, fmt.Errorf("patch node %q: %w", w.node.Name, err)
	}
	w.reportChange(step, change, w.node)
	if w.writeErr != nil && !w.Policy().Gate().Present(w.node.Taints) {
		return postponed, w.writeErr // the next try begins with the record as it is
	}
	return decideAgain, nil
}

// sendPatch makes the PATCH itself. It notes the Node as it is then, and what the API server has taken.
func (w *nodeWork) sendPatch(ctx context.Context, change plan.Plan) error {
	body, err := PatchFor(w.node, change)
	if err != nil {
		return err
	}
	object, err := w.Client.CoreV1().Nodes().Patch(ctx, w.node.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: observe.FieldManager})
	if err != nil {
		return err
	}
	node := w.nodeWithManagedFields(object)
	if node.Fault != nil {
		return node.Fault
	}
	w.node = node
	w.noteSetItems(change.EnforcedItems())
	if len(change.RestoredOwners) > 0 {
		w.refusals.NoteAccepted(node.UID, plan.ManagedFieldsItem)
	}
	if change.Boot != "" {
		w.boots.Wrote(node.Name, w.Now())
		w.refusals.NoteAccepted(node.UID, policy.StampAnnotation)
		w.notices.Reset(node.UID, refusedNotice(policy.StampAnnotation))
	}
	for _, key := range change.EditedItems() {
		w.refusals.NoteAccepted(node.UID, key)
		w.notices.Reset(node.UID, refusedNotice(key))
	}
	return nil
}

// noteSetItems notes what was set on the Node.
func (w *nodeWork) noteSetItems(items []plan.DesiredItem) {
	for _, desired := range items {
		w.fights.NoteSet(w.node.UID, desired, w.Now())
	}
}

// refusedNotice returns the key of the notice that an item was refused, for [pace.Notices]. It is reset once the item is accepted.
func refusedNotice(key string) string { return "refused " + key }

// refusalsBeforeItemByItem is how often the PATCH is refused as a whole before its items are tried one by one.
const refusalsBeforeItemByItem = 3

// handleRefusal handles a PATCH that the API server has refused. A wrong uid is refused, too: then another object has the name. Otherwise the
// same PATCH is retried a few times. Then each key is tried alone, to find out which items are refused. What is left with a boot is tried without it, so that
// no taint of a reboot keeps the gate on.
func (w *nodeWork) handleRefusal(ctx context.Context, change plan.Plan, refusal error) (result, error) {
	if result, err := w.readNode(ctx); err != nil || result != decideAgain {
		return result, err
	}
	refusal = fmt.Errorf("patch node %q: %w", w.node.Name, refusal)
	if len(change.RestoredOwners) > 0 { // tried without them first
		w.refusals.NoteRefused(w.node.UID, plan.ManagedFieldsItem, w.Now())
		return decideAgain, nil
	}
	switch enough := w.refusals.NoteWholeRefusal(w.node.UID) >= refusalsBeforeItemByItem; {
	case enough && change.Boot != "" && len(change.EditedItems()) == 0:
		return w.handleRefusalWithBoot(ctx, change, refusal)
	case !enough || len(change.EditedItems()) == 0:
		return decideAgain, refusal
	}
	if len(change.EditedItems()) > 1 || change.LiftsGate() || change.HasCause(plan.CauseDerivedTaint) || change.Boot != "" {
		w.itemByItem = true // decided again first: the Node may not be what the change was made for
		return decideAgain, nil
	}
	// The only item of a change waits, unless every change of the Node is refused.
	key := change.EditedItems()[0]
	if err := w.sendPatch(ctx, plan.Plan{Edits: change.WithCause(plan.CauseRegistrationTaint), StampBefore: change.StampBefore}); err != nil {
		return decideAgain, refusal
	}
	w.refusals.NoteRefused(w.node.UID, key, w.Now())
	if w.notices.First(w.node.UID, refusedNotice(key)) {
		w.reportRefused(w.node, key, refusal)
	}
	return decideAgain, nil
}

// handleRefusalWithBoot handles a refused PATCH that has a boot and no edited items. The boot waits if it is refused alone, with its taints. Otherwise
// only the rest is left.
func (w *nodeWork) handleRefusalWithBoot(ctx context.Context, change plan.Plan, refusal error) (result, error) {
	alone := plan.Plan{Boot: change.Boot, Edits: change.WithCause(plan.CauseRegistrationTaint), StampBefore: change.StampBefore}
	if change.LiftsGate() || len(alone.Edits) < len(change.Edits) {
		err := w.sendPatch(ctx, alone)
		if err == nil {
			w.reportChange(StepRestore, alone, w.node)
			return decideAgain, nil
		}
		refusal = fmt.Errorf("patch node %q: %w", w.node.Name, err)
	}
	w.refusals.NoteRefused(w.node.UID, policy.StampAnnotation, w.Now())
	if w.notices.First(w.node.UID, refusedNotice(policy.StampAnnotation)) {
		w.reportBootRefused(w.node, change, refusal)
	}
	return decideAgain, nil
}

// put writes the record over the one that was decided on.
func (w *nodeWork) put(ctx context.Context, next Action) (result, error) {
	if next.Step == StepFollowMachine {
		w.followMu.Lock()
		defer w.followMu.Unlock()
		if allowed, result, err := w.mayFollow(ctx, next.Record.Followed); err != nil || !allowed {
			return result, err
		}
	}
	vanished := next.Step == StepCreateRecord && w.recordVanished()
	entry, err := w.Records.Put(ctx, *next.Record, w.entry.Version)
	if errors.Is(err, store.ErrConflict) {
		w.Metrics.errors.WithLabelValues(recordConflict).Inc()
		w.standby.Conflict()
		return w.readRecordFromAPI(ctx)
	}
	if err != nil {
		return w.goOnWithoutRecord(ctx, next, err)
	}
	if w.coalesces(next) {
		w.coalescer.Wrote(w.node.Name, w.Now())
	}
	prev := w.entry.Record
	w.entry, w.hasRecord, w.entryFromAPI, w.writeErr = entry, true, true, nil
	w.observations.noteRecord(w.node.Name, entry.Record)
	if lag, first := w.observations.noteWrite(w.node.Name); first {
		w.Metrics.lag.Observe(lag.Seconds())
	}
	if vanished {
		w.reportVanishedOnce()
		w.notices.Reset(w.node.UID, RecordVanished)
	}
	w.reportWrite(next.Step, prev, entry.Record, w.node)
	return decideAgain, nil
}

// mayFollow checks again whether the Node follows that record, while no other worker does. Otherwise two Nodes of cloned machines could
// follow one record. The record must be in memory as the API server has it. If it must not be followed now, the result says how to go on.
func (w *nodeWork) mayFollow(ctx context.Context, old string) (allowed bool, result result, err error) {
	if w.findPredecessor().record.Followed != old {
		return false, decideAgain, nil
	}
	known, _ := w.Records.Get(old)
	live, err := w.Records.GetFromAPI(ctx, old)
	lost := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnreadable)
	if err != nil && !lost {
		return false, decideAgain, err
	}
	if lost || live.Version != known.Version {
		w.requeueAfter(w.node.Name, followRetry)
		return false, postponed, nil
	}
	return true, decideAgain, nil
}

// followRetry is how long to wait until the record of the machine's old Node shows that the Node is deleted.
const followRetry = time.Second

// findPredecessor returns what the machine of the Node had under another name.
func (w *nodeWork) findPredecessor() predecessor {
	records, err := w.Records.ListByMachine(w.node.Machine)
	if err != nil {
		w.Logger.Error("records of a machine cannot be found; nothing is followed", "node", w.node.Name, "error", err)
		return predecessor{}
	}
	former := predecessorOf(w.node, w.Policy().EarlierRetention(w.Now()).Flatten(records), w.observations.get, w.ClusterUID(), w.Now())
	if former.pendingNode != "" {
		w.queue.Add(former.pendingNode)
	}
	return former
}

// recordVanished reports, for a Node without a record, whether it once had one: its stamp lists items that were restored from it. After an Event has said that
// the record is gone, the result is false, and so it is for a Node that got the items from the record of another Node.
func (w *nodeWork) recordVanished() bool {
	stamp, _ := w.node.Stamp(w.Guard.InForce())
	return w.presence == NodePresent && !w.vanishedReported && len(stamp.Given) > 0 && stamp.Followed == ""
}

// reportVanishedOnce reports the lack of the record once, although it may take several tries to write it.
func (w *nodeWork) reportVanishedOnce() {
	if w.notices.First(w.node.UID, RecordVanished) {
		w.reportVanished(w.node)
	}
}

// goOnWithoutRecord goes on with a record that cannot be written, where a Node would wait for it behind the gate. What the Node shows then is observed
// again, and the record is tried again. A record that decides more than this Node's items is written first all the same.
func (w *nodeWork) goOnWithoutRecord(ctx context.Context, next Action, err error) (result, error) {
	w.reportNearlyFull(*next.Record, w.node)
	if next.Step == StepCreateRecord && w.recordVanished() {
		w.reportVanishedOnce()
	}
	waits := w.presence == NodePresent && w.Policy().Gate().Present(w.node.Taints) && w.writeErr == nil && !w.shuttingDown.Load()
	switch step := next.Step; {
	case !waits || step != StepCreateRecord && step != StepUpdateRecord && step != StepAdoptObject:
		return decideAgain, err
	case !w.entryFromAPI:
		return w.readRecordFromAPI(ctx)
	}
	w.Logger.Warn("record cannot be written; the node is restored and opened all the same", "node", w.node.Name, "error", err)
	w.writeErr, w.entry.Record, w.hasRecord = err, *next.Record, true
	return decideAgain, nil
}

func (w *nodeWork) readRecordFromAPI(ctx context.Context) (result, error) {
	w.entryFromAPI = true
	w.observations.keepInResync(w.node.Name)
	return decideAgain, w.noteEntry(w.Records.GetFromAPI(ctx, w.node.Name))
}

// noteEntry notes the record, or that there is none, and reports that a client took it away.
func (w *nodeWork) noteEntry(entry store.Entry, err error) error {
	w.entry, w.hasRecord, w.unreadable = entry, err == nil, errors.Is(err, store.ErrUnreadable)
	vanished := w.presence == NodePresent && w.observations.takeVanished(w.node.Name) && w.leading.Load()
	if w.hasRecord {
		w.observations.noteRecord(w.node.Name, entry.Record)
	} else if w.unreadable {
		w.observations.noteUnreadable(w.node.Name)
	}
	if vanished {
		w.vanishedReported = true
		w.reportVanished(w.node)
	}
	switch {
	case w.unreadable:
		w.reportUnreadable(w.node, entry.Version, err)
		return nil
	case errors.Is(err, store.ErrNotFound):
		w.entry = store.Entry{}
		return nil
	}
	return err
}

// readNode reads the Node live. If it is deleted or another object has taken the name, the watch will bring that.
func (w *nodeWork) readNode(ctx context.Context) (result, error) {
	node, err := w.getNode(ctx, w.node.Name)
	if err != nil || node == nil || node.UID != w.node.UID {
		return finished, err
	}
	w.node = node
	w.entryFromAPI = false // the client that changed the Node may have written the record before
	return decideAgain, node.Fault
}

// getNode returns the Node of that name as it is now; nil where there is none.
func (c *Controller) getNode(ctx context.Context, name string) (*observe.Node, error) {
	c.observations.keepInResync(name)
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case store.IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get node %q: %w", name, err)
	}
	return c.nodeWithManagedFields(node), nil
}

// nodeWithManagedFields returns a Node that the API server has just returned. Only such a one has managedFields that a PATCH can send back.
func (c *Controller) nodeWithManagedFields(object *corev1.Node) *observe.Node {
	node := observe.FromNodeWithAnnotations(object, c.Policy().Annotations())
	node.ManagedFields = object.ManagedFields
	return node
}
