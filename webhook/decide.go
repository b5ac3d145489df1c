package webhook

import (
	"time"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// known is what the store knows of the registering Node.
type known struct {
	record     record.Record // the zero Record where there is none
	unreadable bool          // there is one, but nothing may be taken from it
	current    bool          // the store is up to date, as far as it knows
	now        time.Time
	found      bool // the Node has a record
	isolated   bool // the record is another machine's, so that nothing may be restored from it
	// follow is the record of a machine that had another name before. It is nil if the policy follows none.
	follow    func(node string, machine record.Machine) (r record.Record, undecided bool)
	undecided bool // there may be a record to follow; capture decides it, and the gate stays until then
}

// forMachine returns what counts of the store for the machine that registers.
func (k known) forMachine(in incoming, p policy.Policy) known {
	rec, transition := p.Transition(in.machine, k.record, 0, k.now)
	k.record, k.isolated = rec, rec.WholeRecordQuarantined()
	if k.found && transition != policy.NewMachine {
		k.follow = nil
	}
	if k.follow != nil {
		k.record, k.undecided = k.follow(in.node, in.machine)
	}
	return k
}

// planFor returns what the registering Node gets. Nothing is restored from a record that is unreadable or another machine's.
func (k known) planFor(in incoming, node *observe.Node, p policy.Policy) plan.Plan {
	r := k.record
	if k.unreadable || k.isolated {
		r = record.Record{}
	}
	return plan.ForCreate(node, r, plan.Inputs{Policy: p, CreateFacts: &in.facts, Now: k.now}, in.occasion)
}

// decision is what to do with a registering Node.
type decision struct {
	plan.Plan
	// restored are the items that the object gets of the record.
	restored    map[string]string
	annotations map[string]string // nodekeep's annotations; the object must carry no other of them
	owners      owners            // of what is restored
	dropped     record.Dropped    // what the record holds and no Node can have
	outcome     outcome
}

// decide says what a registering Node gets. If nothing may be restored, a gate on the Node stays. A store that may be stale restores what it
// knows. It does not remove the gate, because something may still be missing. It stamps the Node. Without a stamp, no process could later correct
// what was restored from a stale record.
func decide(in incoming, k known, p policy.Policy) decision {
	node := in.observed(p)
	d := decision{Plan: k.planFor(in, node, p)}
	if !k.unreadable && !k.isolated {
		d.dropped = k.record.Dropped
	}
	d.restored = d.WithCause(plan.CauseRecord).Immediate().Values()
	switch waits := d.waits(); {
	case k.unreadable:
		d.outcome = unreadableRecord
	case k.isolated:
		d.outcome = otherMachine
	case waits || k.record.Quarantined != nil: // what was followed and no kubelet may set waits for an operator
		d.outcome = deferredSome
	case d.HasCause(plan.CauseRecord):
		d.outcome = restoredAll
	default:
		d.outcome = nothingMissing
	}
	switch {
	case k.unreadable || k.isolated:
	case d.outcome == deferredSome:
		d.Edits = append(d.Edits, plan.CloseGate(p.Gate())...)
	case k.current && !k.undecided:
		d.Edits = append(d.Edits, plan.LiftGate(p.Gate())...)
	}
	return d.annotated(in, node, k, p)
}

// waits reports whether capture has still to set something.
func (d decision) waits() bool { return len(d.LabelsWithoutRoom) > 0 || d.AnyDeferred() }

// annotated completes a decision by nodekeep's annotations, as far as the object has room for them. If the gate stays on an object that has no room for
// a stamp, capture adds the taints instead.
func (d decision) annotated(in incoming, node *observe.Node, k known, p policy.Policy) decision {
	used := policy.AnnotationBytes(in.annotations) + policy.AnnotationBytes(record.SplitAnnotations(d.restored))
	list := func() map[string]string {
		return policy.AnnotationContent{Stamp: d.stampOf(in, node, k, p), Taints: d.DerivedTaints, Labels: d.RuleLabelsInCreate()}.Annotations(used)
	}
	d.owners = d.ownersAfter(in, k, p)
	if d.annotations = list(); d.annotations[policy.StampAnnotation] == "" && d.owners.updated != nil {
		d.owners = owners{}
		d.annotations = list()
	}
	if d.annotations[policy.StampAnnotation] == "" && d.gatedAfter(in, p.Gate()) {
		delete(d.annotations, policy.TaintsAnnotation)
		d.Edits = d.WithCause(plan.CauseRecord, plan.CauseRule, plan.CauseGate)
	}
	return d
}

// stampOf returns what the stamp says of the object once the decision is carried out. Nothing is claimed of an object from
// which the record was kept, but which boot its registration taints are for.
func (d decision) stampOf(in incoming, node *observe.Node, k known, p policy.Policy) record.Stamp {
	if d.outcome == unreadableRecord || d.outcome == otherMachine {
		return record.Stamp{Boot: in.bootID}
	}
	from := k.record
	if d.owners.updated == nil {
		from = from.WithoutOwners()
	}
	stamp := record.Stamp{Brought: d.ItemsOfCreate(node, k.record, p, in.occasion), Boot: in.bootID}.Merge(d.restored, from, 0)
	if k.follow != nil && len(stamp.Given) > 0 {
		stamp.Followed = k.record.Followed
	}
	return stamp
}

// gatedAfter reports whether the object will carry the gate.
func (d decision) gatedAfter(in incoming, gate policy.Gate) bool {
	return d.ClosesGate() || !d.LiftsGate() && gate.Present(in.taints)
}

// bytes returns how much the decision adds to the object, about.
func (d decision) bytes() int {
	size := d.owners.bytes()
	for key, value := range d.annotations {
		size += len(key) + len(value)
	}
	for _, edit := range d.Edits {
		if !edit.Deferred {
			size += len(edit.Item) + len(edit.Value)
		}
	}
	return size
}

// withoutItems returns the decision for a Node that has no room. Nothing is listed as set, and the missing items wait behind the gate.
func (d decision) withoutItems(gate policy.Gate) decision {
	small := decision{outcome: tooLarge}
	if len(d.Edits) > len(d.WithCause(plan.CauseGate)) || len(d.LabelsWithoutRoom) > 0 {
		small.Edits = plan.CloseGate(gate)
	}
	return small
}
