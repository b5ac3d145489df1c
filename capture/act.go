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
	"nodekeep.dev/nodekeep/store"
)

// act carries out one action. The next decision uses the state that it reads.
func (a *attempt) act(ctx context.Context, next Action) (result, error) {
	switch {
	case next.Write == nil && a.keyByKey:
		return a.change(ctx, next.Step, next.OnlyFirstKey())
	case next.Write == nil:
		return a.change(ctx, next.Step, next.Plan)
	case next.Write.Omitted():
		return a.readLive(ctx) // a record that was read without its history cannot be written; the cache leaves histories out
	case a.event == Absent: // the cache does not prove that the Node is absent: ask the API server
		node, err := a.getNode(ctx, a.node.Name)
		if err != nil {
			return postponed, err
		}
		if node != nil { // the watch is late; if the Node is deleted before the next list, it never brings this object
			a.standby.Forget(a.node.Name)
			a.requeueAfter(a.node.Name, aheadFor)
			return postponed, nil
		}
	}
	return a.put(ctx, next)
}

// change makes one PATCH of exactly the state that was decided on.
func (a *attempt) change(ctx context.Context, step Step, change plan.Plan) (result, error) {
	if len(change.Owners) > 0 && change.ManagedFields == nil {
		return a.readNode(ctx)
	}
	err := a.patch(ctx, change)
	switch {
	case err == nil:
	case store.SaysGone(err):
		return finished, nil // the watch will bring its end
	case apierrors.IsConflict(err) && a.writeErr != nil:
		return postponed, a.writeErr
	case apierrors.IsConflict(err):
		a.Metrics.errors.WithLabelValues(nodeConflict).Inc()
		return a.readNode(ctx)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return a.refused(ctx, change, err)
	default:
		return retry, fmt.Errorf("patch node %q: %w", a.node.Name, err)
	}
	a.reportChange(step, change, a.node)
	if a.writeErr != nil && !a.Policy().Gate().Present(a.node.Taints) {
		return postponed, a.writeErr // the next try begins with the record as it is
	}
	return retry, nil
}

// patch makes the PATCH itself. It notes the Node as it is then, and what the API server has taken.
func (a *attempt) patch(ctx context.Context, change plan.Plan) error {
	body, err := PatchFor(a.node, change)
	if err != nil {
		return err
	}
	object, err := a.Client.CoreV1().Nodes().Patch(ctx, a.node.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: observe.FieldManager})
	if err != nil {
		return err
	}
	node := a.fullNode(object)
	if node.Fault != nil {
		return node.Fault
	}
	a.node = node
	a.noteSettings(change.Settings())
	if len(change.Owners) > 0 {
		a.refusals.Accepted(node.UID, plan.ManagedFields)
	}
	for _, key := range change.Keys() {
		a.refusals.Accepted(node.UID, key)
		a.notices.Reset(node.UID, refusedNews(key))
	}
	return nil
}

// noteSettings notes what was set on the Node.
func (a *attempt) noteSettings(settings []plan.Setting) {
	for _, set := range settings {
		a.fights.Done(a.node.UID, set, a.Now())
	}
}

// refusedNews returns the key of the notice that an item was refused, for [pace.Notices]. It is reset once the item is accepted.
func refusedNews(key string) string { return "refused " + key }

// roundsBeforeKeyByKey is how often the PATCH is refused as a whole before its items are tried one by one.
const roundsBeforeKeyByKey = 3

// refused handles a PATCH that the API server has refused. A wrong uid is refused, too: then another object has the name. Otherwise the
// same PATCH is retried a few times. Then each key is tried alone, to find out which items are refused.
func (a *attempt) refused(ctx context.Context, change plan.Plan, refused error) (result, error) {
	if result, err := a.readNode(ctx); err != nil || result != retry {
		return result, err
	}
	refused = fmt.Errorf("patch node %q: %w", a.node.Name, refused)
	if len(change.Owners) > 0 { // tried without them first
		a.refusals.Refused(a.node.UID, plan.ManagedFields, a.Now())
		return retry, nil
	}
	if a.refusals.Round(a.node.UID) < roundsBeforeKeyByKey || len(change.Keys()) == 0 {
		return retry, refused
	}
	if len(change.Keys()) > 1 || change.LiftsGate() || change.HasCause(plan.Derivation) {
		a.keyByKey = true // decided again first: the Node may not be what the change was made for
		return retry, nil
	}
	// The only item of a change waits, unless every change of the Node is refused.
	key := change.Keys()[0]
	if err := a.patch(ctx, plan.Plan{Edits: change.WithCause(plan.Registration), Stamp: change.Stamp}); err != nil {
		return retry, refused
	}
	a.refusals.Refused(a.node.UID, key, a.Now())
	if a.notices.First(a.node.UID, refusedNews(key)) {
		a.reportRefused(a.node, key, refused)
	}
	return retry, nil
}

// put writes the record over the one that was decided on.
func (a *attempt) put(ctx context.Context, next Action) (result, error) {
	if next.Step == Follow {
		a.following.Lock()
		defer a.following.Unlock()
		if result, err := a.mayFollow(ctx, next.Write.Followed); err != nil || result != finished {
			return result, err
		}
	}
	vanished := next.Step == Create && a.vanished()
	entry, err := a.Records.Put(ctx, *next.Write, a.entry.Version)
	if errors.Is(err, store.ErrConflict) {
		a.Metrics.errors.WithLabelValues(recordConflict).Inc()
		a.standby.Conflict()
		return a.readLive(ctx)
	}
	if err != nil {
		return a.unwritten(ctx, next, err)
	}
	if a.coalesces(next) {
		a.coalescer.Wrote(a.node.Name, a.Now())
	}
	prev := a.entry.Record
	a.entry, a.hasRecord, a.entryLive, a.writeErr = entry, true, true, nil
	a.observations.noteRecord(a.node.Name, entry.Record)
	if lag, first := a.observations.noteWrite(a.node.Name); first {
		a.Metrics.lag.Observe(lag.Seconds())
	}
	if vanished {
		a.reportVanishedOnce()
		a.notices.Reset(a.node.UID, RecordVanished)
	}
	a.reportWrite(next.Step, prev, entry.Record, a.node)
	return retry, nil
}

// mayFollow checks again whether the Node follows that record, while no other worker does. Otherwise two Nodes of cloned machines could
// follow one record. The record must be in memory as the API server has it.
func (a *attempt) mayFollow(ctx context.Context, old string) (result, error) {
	if a.followed().record.Followed != old {
		return retry, nil
	}
	known, _ := a.Records.Get(old)
	live, err := a.Records.GetLive(ctx, old)
	lost := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnreadable)
	if err != nil && !lost {
		return retry, err
	}
	if lost || live.Version != known.Version {
		a.requeueAfter(a.node.Name, followRetry)
		return postponed, nil
	}
	return finished, nil
}

// followRetry is how long to wait until the record of the machine's old Node shows that the Node is deleted.
const followRetry = time.Second

// followed returns what the machine of the Node had under another name.
func (a *attempt) followed() predecessor {
	records, err := a.Records.OfMachine(a.node.Machine)
	if err != nil {
		a.Logger.Error("records of a machine cannot be found; nothing is followed", "node", a.node.Name, "error", err)
		return predecessor{}
	}
	former := predecessorOf(a.node, a.Policy().Keeping(a.Now()).WithEarlier(records), a.observations.states, a.Cluster(), a.Now())
	if former.pendingNode != "" {
		a.queue.Add(former.pendingNode)
	}
	return former
}

// vanished reports, where there is no record, whether there was one: the stamp says that the Node was restored from it, and no Event has said yet that it
// is gone.
func (a *attempt) vanished() bool {
	stamp, _ := a.node.Stamp(a.Guard.InForce())
	return a.event == Present && !a.lost && len(stamp.Given) > 0 && stamp.Followed == ""
}

// reportVanishedOnce reports the lack of the record once, although it may take several tries to write it.
func (a *attempt) reportVanishedOnce() {
	if a.notices.First(a.node.UID, RecordVanished) {
		a.reportVanished(a.node)
	}
}

// unwritten goes on with a record that cannot be written, where a Node would wait for it behind the gate. What the Node shows then is observed
// again, and the record is tried again. A record that decides more than this Node's items is written first all the same.
func (a *attempt) unwritten(ctx context.Context, next Action, err error) (result, error) {
	a.reportNearlyFull(*next.Write, a.node)
	if next.Step == Create && a.vanished() {
		a.reportVanishedOnce()
	}
	waits := a.event == Present && a.Policy().Gate().Present(a.node.Taints) && a.writeErr == nil && !a.ending.Load()
	switch step := next.Step; {
	case !waits || step != Create && step != Update && step != Adopt:
		return retry, err
	case !a.entryLive:
		return a.readLive(ctx)
	}
	a.Logger.Warn("record cannot be written; the node is restored and opened all the same", "node", a.node.Name, "error", err)
	a.writeErr, a.entry.Record, a.hasRecord = err, *next.Write, true
	return retry, nil
}

func (a *attempt) readLive(ctx context.Context) (result, error) {
	a.entryLive = true
	a.observations.unsettle(a.node.Name)
	return retry, a.read(a.Records.GetLive(ctx, a.node.Name))
}

// read notes the record, or that there is none, and reports that a client took it away.
func (a *attempt) read(entry store.Entry, err error) error {
	a.entry, a.hasRecord, a.unreadable = entry, err == nil, errors.Is(err, store.ErrUnreadable)
	lost := a.event == Present && a.observations.takeLost(a.node.Name) && a.leading.Load()
	if a.hasRecord {
		a.observations.noteRecord(a.node.Name, entry.Record)
	} else if a.unreadable {
		a.observations.noteUnreadable(a.node.Name)
	}
	if lost {
		a.lost = true
		a.reportVanished(a.node)
	}
	switch {
	case a.unreadable:
		a.reportUnreadable(a.node, entry.Version, err)
		return nil
	case errors.Is(err, store.ErrNotFound):
		a.entry = store.Entry{}
		return nil
	}
	return err
}

// readNode reads the Node live. If it is deleted or another object has taken the name, the watch will bring that.
func (a *attempt) readNode(ctx context.Context) (result, error) {
	node, err := a.getNode(ctx, a.node.Name)
	if err != nil || node == nil || node.UID != a.node.UID {
		return finished, err
	}
	a.node = node
	a.entryLive = false // the client that changed the Node may have written the record before
	return retry, node.Fault
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
	return c.fullNode(node), nil
}

// fullNode returns a Node that the API server has just returned. Only such a one has managedFields that a PATCH can send back.
func (c *Controller) fullNode(object *corev1.Node) *observe.Node {
	node := observe.OfKeeping(object, c.Policy().Annotations())
	node.ManagedFields = object.ManagedFields
	return node
}
