package observe

import (
	"time"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// Metadata is what the policy looks at when the Node is observed for a record.
func (n *Node) Metadata(r record.Record, p policy.Policy, guarded bool) policy.Metadata {
	return policy.Metadata{
		Items: n.Items, Owners: n.Owners, Claimed: n.Claimed, RuleTaints: n.DerivedTaints(r, p, guarded), Machine: n.Machine,
	}
}

// Observation is the Node as a state to merge into a record. guarded says that the guard policies are in force.
func (n *Node) Observation(r record.Record, p policy.Policy, guarded bool) record.Observation {
	o := record.Observation{UID: n.UID, Version: n.Version, Items: make(map[string]record.Item, len(n.Items))}
	metadata := n.Metadata(r, p, guarded)
	for key, value := range n.Items {
		o.Items[key] = record.Item{Value: value, Owner: n.ownerOf(key, r, metadata, p)}
	}
	o.Stamp, _ = n.Stamp(guarded)
	if !guarded {
		o.Unproved = unproved(o.Stamp, r)
	}
	return o
}

// ownerOf says whose decision an item is. A kubelet can forge the managedFields and the ownership annotations of its Node. So these are no
// reason to stop recording a label that no kubelet may set: its next edit would be lost.
func (n *Node) ownerOf(key string, r record.Record, metadata policy.Metadata, p policy.Policy) record.Owner {
	owner := p.Judge(metadata, key).Owner
	if owner != record.Other || record.IsTaint(key) || policy.AllowedForKubelet(key) {
		return owner
	}
	e, known := r.Entry(key)
	if keeps, _ := p.Keeps(key); !keeps || !known || e.Removed {
		return owner
	}
	if p.OwnedByPeople(n.Owners[key]) {
		return record.Client
	}
	return record.Nobody
}

// Merge is the record after the observation o of this Node: what [record.Merge] makes of it, the machine, and the history of what it
// changed; a first record has none. isolated is true where another machine has the name now and the policy quarantines what is remembered; see
// [record.Isolate].
func (n *Node) Merge(r record.Record, o record.Observation, p policy.Policy, now time.Time) (next record.Record, isolated bool) {
	r.Node = n.Name
	if newest := r.Newest(); r.Quarantined == nil && o.UID != newest.UID && o.Version > newest.Version && p.Quarantines(n.Machine, r.Machine) {
		return record.Isolate(r, o, n.Machine), true
	}
	next = record.Merge(r, o)
	if next.Newest() == (record.Object{UID: o.UID, Version: o.Version}) {
		next.Machine = n.machineAfter(next)
	}
	if len(r.Seen)+len(r.Entries) == 0 { // a first record: nobody knows what was before
		return next, false
	}
	return history.Following(r, next, func(key string, values history.Values) history.Cause { return n.cause(key, values, p, now) }), false
}

// machineAfter is the machine that a record is of once this Node was merged into it. While an isolation label is held back because the
// machine is not known to be the same, the record stays that of the machine which had the label: otherwise the next
// registration would find the machine it was held back from.
func (n *Node) machineAfter(r record.Record) record.Machine {
	for _, e := range r.Entries {
		if e.NotShown && policy.IsNodeRestriction(e.Key) {
			return r.Machine
		}
	}
	if n.Machine.Compare(r.Machine) == record.OtherMachine {
		return n.Machine
	}
	return n.Machine.Over(r.Machine)
}
