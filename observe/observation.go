package observe

import (
	"maps"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// Metadata returns what the policy uses when the Node is observed for a record.
func (n *Node) Metadata(r record.Record, p policy.Policy, guardInForce bool) policy.Metadata {
	return policy.Metadata{
		Items: n.Items, Owners: n.knownOwners(r), Marks: n.marks(r, p), Claimed: n.Claimed, RuleTaints: n.DerivedTaints(r, p, guardInForce), RuleLabels: n.TrustedRuleLabels(r, p, guardInForce), Record: r, Machine: n.Machine,
	}
}

// KeptItems returns what the policy compares with a record.
func (n *Node) KeptItems() policy.KeptItems {
	return policy.KeptItems{Items: n.Items, Machine: n.Machine, AnnotationBytes: n.AnnotationBytes}
}

// Observation returns the Node as a state to merge into a record. The parameter guardInForce says that the guard policies are in force.
func (n *Node) Observation(r record.Record, p policy.Policy, guardInForce bool) record.Observation {
	o := record.Observation{UID: n.UID, Version: n.Version, Items: make(map[string]record.Item, len(n.Items))}
	if p.TellsMachinesApart() {
		o.Machine = n.Machine
	}
	metadata, owners := n.Metadata(r, p, guardInForce), lastingOwners(n.Writers, p)
	for key, value := range n.Items {
		if owner, taken := n.ownerOf(key, r, metadata, p); !taken { // what a component has taken over is no longer the operator's: as if it were removed
			item := record.Item{Value: value, Owner: owner}
			if owner == record.NoOwner || owner == record.Client {
				item.Owners = owners[key]
			}
			o.Items[key] = item
		}
		if to, ok := n.renamedHere(key, r, metadata, p); ok {
			o.Items[to] = record.Item{Owner: record.OtherOwner}
		}
	}
	for key, label := range metadata.RuleLabels {
		if label.Absent && label.ShownBy(n.Items, key) {
			o.Items[key] = record.Item{Owner: record.Absent}
		}
	}
	o.RuleSince = n.ruleSince(r, metadata, p, guardInForce)
	o.Stamp, _ = n.Stamp(guardInForce)
	if taints := o.Stamp.TaintsBehindGate; taints != nil && p.Gate().Present(n.Taints) { // no client adds the gate: one that wrote a list with it had read it before
		o.Read = append(slices.Clone(taints), policy.Cordon) // which is no part of the list
	}
	n.limitAnnotations(r, o, p)
	if !guardInForce {
		o.Unconfirmed = unconfirmed(o.Stamp, r)
	}
	return o
}

// renamedHere returns the key under which the record has a label that this object shows under its old key only. The record has the label from this
// object, so without the new key it would look removed.
func (n *Node) renamedHere(key string, r record.Record, metadata policy.Metadata, p policy.Policy) (to string, ok bool) {
	to, ok = p.RenamedTo(metadata, key)
	if _, shown := n.Items[to]; !ok || shown {
		return "", false
	}
	e, _ := r.Entry(to)
	return to, r.DecidedOn(e) == n.UID
}

// limitAnnotations corrects the owners of annotations. An annotation that was not read is unknown, so it stays as it is in the record. An
// annotation is too large if the record has no room for it.
func (n *Node) limitAnnotations(r record.Record, o record.Observation, p policy.Policy) {
	room := record.MaxAnnotationsBytes
	for _, e := range r.Entries {
		annotation, ok := record.Annotation(e.Key)
		if !ok {
			continue
		}
		if keeps, _ := n.ReadAnnotations.Keeps(annotation); !keeps {
			o.Items[e.Key] = record.Item{Owner: record.OtherOwner}
		}
		if item, shown := o.Items[e.Key]; !e.Removed && (!shown || item.Owner == record.OtherOwner) {
			room -= record.AnnotationSize(annotation, e.Value)
		}
	}
	for _, key := range n.TooLarge {
		o.Items[key] = record.Item{Owner: n.ownerOfTooLarge(key, p)}
	}
	kept := record.SplitAnnotations(n.Items)
	for _, annotation := range slices.Sorted(maps.Keys(kept)) {
		key := record.AnnotationKey(annotation)
		size := record.AnnotationSize(annotation, kept[annotation])
		switch item := o.Items[key]; {
		case item.Owner == record.OtherOwner:
		case size > room:
			o.Items[key] = record.Item{Owner: record.TooLarge}
		default:
			room -= size
		}
	}
}

// ownerOfTooLarge leaves alone what other components set again by themselves.
func (n *Node) ownerOfTooLarge(key string, p policy.Policy) record.Owner {
	if p.Judge(policy.Metadata{Owners: n.Owners}, key).Owner == record.OtherOwner {
		return record.OtherOwner
	}
	return record.TooLarge
}

// ownerOf says whose decision an item is, and whether a component has taken it over from an operator. A kubelet can forge the managedFields
// and the ownership annotations of its Node. So these do not stop the recording of a label that no kubelet may set. Otherwise its next edit
// would be lost. Which labels rules have set is proved, see [Node.TrustedRuleLabels].
func (n *Node) ownerOf(key string, r record.Record, metadata policy.Metadata, p policy.Policy) (owner record.Owner, taken bool) {
	verdict := p.Judge(metadata, key)
	ruleLabel, ruled := metadata.RuleLabels[key]
	if verdict.Owner != record.OtherOwner || record.IsTaint(key) || policy.AllowedForKubelet(key) || ruled && ruleLabel.ShownBy(n.Items, key) {
		return verdict.Owner, verdict.Taken
	}
	if e, known := r.Entry(key); !known || e.Removed || !p.Restores(key) {
		return verdict.Owner, false
	}
	if p.OwnedByPeople(n.Owners[key]) {
		return record.Client, false
	}
	return record.NoOwner, false
}

// ruleSince returns the keys that rules have left as they want them; see [record.Observation]. Without the guard policies the kubelet may have
// written since when that is. It could change a label that it may set itself anyway.
func (n *Node) ruleSince(r record.Record, metadata policy.Metadata, p policy.Policy, guardInForce bool) map[string]record.Version {
	var base map[string]record.Version
	listed := metadata.RuleLabels
	metadata.RuleLabels = nil
	for key, label := range listed {
		if label.Adopted || !guardInForce && (!record.IsLabel(key) || !policy.AllowedForKubelet(key)) {
			continue
		}
		if owner, taken := n.ownerOf(key, r, metadata, p); taken || owner == record.OtherOwner {
			continue
		}
		if base == nil {
			base = make(map[string]record.Version, len(listed))
		}
		base[key] = label.Version
	}
	return base
}

// Transition returns the record that this Node is merged into. A newer object may be on another machine, see [policy.Policy.Transition].
func (n *Node) Transition(r record.Record, p policy.Policy, now time.Time) (record.Record, policy.Transition) {
	if newest := r.Newest(); n.UID == newest.UID || n.Version <= newest.Version {
		return r, policy.Stays
	}
	return p.Transition(n.Machine, r, n.Version, now)
}

// Merge returns the record after the observation o of this Node. It adds to the result of [record.Merge] the machine, and the history of what
// changed; a first record has none.
func (n *Node) Merge(r record.Record, o record.Observation, p policy.Policy, now time.Time) record.Record {
	r.Node = n.Name
	next := record.Merge(r, o)
	if next.Newest() == (record.Object{UID: o.UID, Version: o.Version}) {
		next = next.WithMarks(n.marks(r, p))
		machine := n.machineAfter(next)
		switch equal := r.Newest().UID == o.UID; {
		case !equal:
			next.MachineSince = 0
		case machine.Contradicts(next.Machine): // no machine changes while it is one Node object
			next.MachineSince = o.Version
		}
		next.Machine = machine
	}
	if len(r.Seen)+len(r.Entries) == 0 { // a first record: the state before is not known
		return next
	}
	next = history.Append(r, next, func(key string, values history.Values) history.Cause { return n.cause(key, values, p, now) })
	return history.AppendMarks(r, next, now)
}

// machineAfter returns the machine of a record after this Node was merged into it. An isolation label is held back while the machine is not
// known to be the same. The record then keeps the machine that had the label. Otherwise the next registration would match the new machine.
func (n *Node) machineAfter(r record.Record) record.Machine {
	for _, e := range r.Entries {
		if e.NotShown && policy.IsNodeRestriction(e.Key) {
			return r.Machine
		}
	}
	if n.Machine.Compare(r.Machine) == record.OtherMachine {
		return n.Machine
	}
	return n.Machine.Merge(r.Machine)
}
