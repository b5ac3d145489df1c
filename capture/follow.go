package capture

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// followRetry is when to look again for the record of a machine. Its old Node is deleted, but the record does not show that yet.
const followRetry = time.Second

// Limits for the names in an Event about the Nodes that a machine may have been: a number, and bytes.
const (
	maxShownNodes = 10
	maxShown      = 512
)

// predecessor says what there is of a machine under other names.
type predecessor int

const (
	noRecord       predecessor = iota
	oneRecord                  // it is followed
	lateRecord                 // of a Node that does not exist; its last state or its deletion is still to be recorded
	severalRecords             // nothing can be followed but taints: several, or one of a Node that exists, is quarantined, or was followed
)

// followed returns the record that the Node begins with: what its machine had under another name, else nothing.
func (a *attempt) followed() (entry store.Entry, found predecessor) {
	records, err := a.Records.OfMachine(a.node.Machine)
	if err != nil {
		a.Logger.Error("records of a machine cannot be found; nothing is followed", "node", a.node.Name, "error", err)
		return store.Entry{}, noRecord
	}
	records = a.Policy().Keeping(a.Now()).WithEarlier(records)
	old, only, several := record.Predecessor(a.node.Name, a.node.Machine, records)
	if was := old; only {
		several = []string{old.Node}
		if old, _ = old.Rebase(a.Cluster(), math.MaxUint64); a.node.Version < old.Newest().Version {
			several = append(several, a.node.Name) // the two existed at once, so that these are two machines
		}
		for _, r := range records { // one that does not say so yet may be of a Node that has registered again
			_, live := a.observations.look(r.Node)
			if r.Node != several[0] && r.Node != a.node.Name && live != nil && a.node.Machine.Agrees(live.Machine) && !r.ClaimsAfter(was) {
				several = append(several, r.Node)
			}
		}
	}
	if len(several) == 1 {
		switch gone, live := a.observations.look(several[0]); {
		case only && record.Superseded(old, records):
			return store.Entry{Record: observe.Follow(old, a.node.Name, a.node.Machine, a.Now())}, oneRecord
		case live != nil:
		case only && len(gone) == 0:
			return store.Entry{Record: observe.Follow(old, a.node.Name, a.node.Machine, a.Now())}, oneRecord
		case !slices.ContainsFunc(records, func(r record.Record) bool { return r.Node == several[0] && r.Isolated() }):
			a.queue.Add(several[0])
			return store.Entry{}, lateRecord
		}
	}
	tainted, of := a.tainted(records)
	if len(several)+len(of) == 0 {
		return store.Entry{}, noRecord
	}
	several = append(several, of...)
	slices.Sort(several)
	a.reportAmbiguous(slices.Compact(several))
	return store.Entry{Record: tainted}, severalRecords
}

// tainted returns the record that the Node begins with where its machine may be one of several. A Node that exists, or was seen after this one, is another
// machine.
func (a *attempt) tainted(records []record.Record) (r record.Record, of []string) {
	var before []record.Record
	for _, r := range records {
		r, _ = r.Rebase(a.Cluster(), math.MaxUint64)
		if _, live := a.observations.look(r.Node); live == nil && r.Newest().Version <= a.node.Version {
			before = append(before, r)
		}
	}
	return record.Tainted(a.node.Name, a.node.Machine, before)
}

// mayFollow checks again whether the Node follows that record, while no other worker does. Otherwise two Nodes of cloned machines could
// follow one record. The record must be in memory as the API server has it.
func (a *attempt) mayFollow(ctx context.Context, old string) (result, error) {
	entry, _ := a.followed()
	if entry.Record.Followed != old {
		return again, nil
	}
	known, _ := a.Records.Get(old)
	live, err := a.Records.GetLive(ctx, old)
	lost := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnreadable)
	if err != nil && !lost {
		return again, err
	}
	if lost || live.Version != known.Version {
		a.later(a.node.Name, followRetry)
		return postponed, nil
	}
	return finished, nil
}

// reportAmbiguous reports once why a machine does not get what it had under another name.
func (a *attempt) reportAmbiguous(several []string) {
	shown := several[:min(len(several), maxShownNodes)]
	names := policy.Shortened(strings.Join(shown, ", "), maxShown)
	if !a.leading.Load() || !a.notesOf(a.node.UID).report("ambiguous "+names) {
		return
	}
	a.Logger.Warn("machine cannot be followed: a Node that exists, or several records, have its identity", "node", a.node.Name, "records", names)
	a.warn(a.node, MachineAmbiguous,
		"Only taints are restored from other names of this machine: the records of %d Nodes have its providerID, systemUUID or machineID, or one of a Node that exists, is quarantined, or was followed. Nodes: %s",
		len(several), names)
}

// reportFollowed reports what a Node gets from the record of another name, and what waits.
func (a *attempt) reportFollowed(after record.Record) {
	waits := "nothing"
	if after.Quarantined != nil {
		waits = keyList(after.Quarantined.Items()) + "; to decide: nodekeep accept " + after.Node + " --machine old (they belong to this machine) or new (they do not)"
	}
	a.tell(a.node, MachineFollowed,
		"This machine was Node %s before, and gets its record. Waits for an operator: %s", after.Followed, waits)
}
