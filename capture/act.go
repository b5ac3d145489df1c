package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/store"
)

// fieldManager owns the labels that capture puts on Nodes, in their metadata.managedFields.
const fieldManager = "nodekeep"

// attempt is the work on one sight of one Node: what is known now, and the steps that change it.
type attempt struct {
	*Controller

	seen  *Node
	event Event

	entry      store.Entry
	found      bool // there is a record
	unreadable bool // there is one, but nothing may be taken from it
	live       bool // entry is the API server's answer, not the cache's
	keyByKey   bool // labels are given one by one, to find out which is refused
	over       bool // the Node is not the one that was seen any more

	wait      time.Duration // until what has to wait may be done
	coalesced bool          // the record has to wait

	given []string // what was given back on the way
}

// observe takes in a state of the Node.
func (a *attempt) observe(seen *Node) { a.seen = seen.withGuards(a.Guards.InForce()) }

// read takes in a record, or that there is none.
func (a *attempt) read(entry store.Entry, err error) error {
	a.entry, a.found, a.unreadable = entry, err == nil, errors.Is(err, store.ErrUnreadable)
	if a.found {
		a.sightings.hasRecord(a.seen.Name, retained(entry.Record))
	}
	if a.unreadable {
		a.reportUnreadable(a.seen, entry.Version, err)
		return nil
	}
	if errors.Is(err, store.ErrNotFound) {
		a.entry = store.Entry{}
		return nil
	}
	return err
}

// remembersLater reports whether the record tells of this sight or of a later one.
func (a *attempt) remembersLater() bool {
	return a.found && compareVersions(a.seen.ResourceVersion, a.entry.Record.NodeResourceVersion) <= 0
}

// overtaken reports whether the record tells of a later state of this very Node, or of one of its name.
func (a *attempt) overtaken() bool {
	if a.found && a.entry.Record.UID == a.seen.UID {
		return compareVersions(a.seen.ResourceVersion, a.entry.Record.NodeResourceVersion) < 0
	}
	return a.found && late(a.entry.Record, a.seen)
}

func (a *attempt) readLive(ctx context.Context) error {
	a.live = true
	return a.read(a.Records.GetLive(ctx, a.seen.Name))
}

// record is the record, nil if there is none.
func (a *attempt) record() *store.Record {
	if !a.found {
		return nil
	}
	return &a.entry.Record
}

func (a *attempt) plan() Plan {
	seen := *a.seen
	seen.Refused = a.refusals.of(seen.Name, seen.UID)
	return plan(a.record(), &seen, a.event, a.Policy(), a.Now())
}

// act carries out one step. What it learns on the way is there for the next plan.
func (a *attempt) act(ctx context.Context, next Plan) error {
	switch {
	case next.Write != nil && next.Write.HistoryLeftOut():
		return a.readLive(ctx) // only records that have a history cost that
	case next.Write != nil:
		if next.Step == Create && a.sightings.lostRecord(a.seen.Name) {
			a.reportVanished(a.seen)
		}
		return a.put(ctx, next.Step, *next.Write)
	case next.changesNode() && !a.live:
		return a.readLive(ctx) // never change a Node on the cache's word alone
	case next.changesNode() && a.keyByKey:
		return a.change(ctx, next.first(a.seen))
	case next.changesNode():
		return a.change(ctx, next)
	default: // the record is right, but its ConfigMap has lost the label that the informer selects on
		return a.put(ctx, Update, a.entry.Record)
	}
}

func (a *attempt) put(ctx context.Context, step Step, next store.Record) error {
	counts := coalesces(a.record(), a.seen, Plan{Step: step, Write: &next}, a.Policy())
	entry, err := a.Records.Put(ctx, next, a.entry.Version)
	if errors.Is(err, store.ErrConflict) {
		a.Metrics.conflicted(recordConflict)
		return a.readLive(ctx)
	}
	if err != nil {
		return err
	}
	before := a.entry.Record
	a.entry, a.found, a.live = entry, true, true
	if counts {
		a.coalescer.wrote(a.seen.Name, a.Now())
	}
	a.sightings.hasRecord(a.seen.Name, retained(next))
	a.reportWrite(step, before, next, a.seen, a.given)
	return nil
}

func (a *attempt) change(ctx context.Context, next Plan) error {
	body, err := patchFor(a.seen, next, a.Policy().Gate())
	if err != nil {
		return err
	}
	node, err := a.Client.CoreV1().Nodes().Patch(ctx, a.seen.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		a.observe(nodeOf(node))
		a.given = append(a.given, slices.Collect(maps.Keys(next.Give))...)
		a.hasSet(next)
		a.reportChange(next, a.seen)
		return nil
	case apierrors.IsNotFound(err):
		a.over = true // the watch will bring its end
		return nil
	case apierrors.IsConflict(err):
		a.Metrics.conflicted(nodeConflict)
		return a.lookAgain(ctx)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return a.refused(ctx, next, err)
	default:
		return fmt.Errorf("patch node %q: %w", a.seen.Name, err)
	}
}

// lookAgain reads the Node live; if another object has taken the name, its own event will come.
func (a *attempt) lookAgain(ctx context.Context) error {
	node, err := a.Client.CoreV1().Nodes().Get(ctx, a.seen.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		a.over = true
	case err != nil:
		return fmt.Errorf("get node %q: %w", a.seen.Name, err)
	case node.UID != a.seen.UID:
		a.over = true
	default:
		a.observe(nodeOf(node))
		a.live = false // whoever changed the Node may have written the record before
	}
	return nil
}

// refused deals with a patch that the API server would not have. A wrong uid is refused too: then another object has the
// name. Otherwise the same patch is tried a few rounds more, and then key by key, to find out which labels are refused.
func (a *attempt) refused(ctx context.Context, next Plan, refusal error) error {
	uid := a.seen.UID
	if err := a.lookAgain(ctx); err != nil || a.over {
		return err
	}
	refusal = fmt.Errorf("patch node %q: %w", a.seen.Name, refusal)
	if a.refusals.count(a.seen.Name, uid) < roundsBeforeKeyByKey || len(next.keys()) == 0 {
		return refusal
	}
	if len(next.keys()) > 1 || next.LiftGate || len(next.Put)+len(next.Take) > 0 {
		a.keyByKey = true // planned again first: the Node may not be what the plan was made for
		return nil
	}
	return a.refuse(ctx, next, refusal)
}

// keys are the items that a step gives, puts right or takes back, in a stable order.
func (p Plan) keys() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(p.Give)), slices.Collect(maps.Keys(p.PutRight)), p.TakeBack)))
}

// first is the part of a step that changes the first of its keys only.
func (p Plan) first(seen *Node) Plan {
	if len(p.keys()) == 0 {
		return p
	}
	key := p.keys()[0]
	if value, give := p.Give[key]; give {
		one := map[string]string{key: value}
		return Plan{Step: p.Step, Give: one, Stamp: stampAfter(seen, one, nil), Register: p.Register}
	}
	if value, put := p.PutRight[key]; put {
		return Plan{Step: p.Step, PutRight: map[string]string{key: value}}
	}
	return Plan{Step: p.Step, TakeBack: []string{key}}
}

// refuse gives up the only item of a step for this object, if it is the item that is refused and not every change to the Node.
func (a *attempt) refuse(ctx context.Context, step Plan, refusal error) error {
	key := step.keys()[0]
	body, err := patchFor(a.seen, Plan{Stamp: stampAfter(a.seen, nil, nil), Register: step.Register}, a.Policy().Gate())
	if err != nil {
		return err
	}
	node, err := a.Client.CoreV1().Nodes().Patch(ctx, a.seen.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return refusal
	}
	a.observe(nodeOf(node))
	a.refusals.add(a.seen.Name, a.seen.UID, key)
	a.reportRefused(a.seen, key, refusal)
	return nil
}
