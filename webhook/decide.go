package webhook

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// of is what counts of the store for the machine that registers.
func (k known) of(in incoming, p policy.Policy) known {
	own, turn := p.Turn(in.machine, k.record, 0, k.now)
	k.record, k.isolated = own, own.Isolated()
	if k.found && turn != policy.Begins {
		k.follow = nil
	}
	if k.follow != nil {
		k.record, k.undecided = k.follow(in.node, in.machine)
	}
	return k
}

// decision is what to do with a registering Node.
type decision struct {
	restore policy.Restore
	labels  map[string]record.Derived // what rules set now, and what they remove
	later   map[string]record.Derived // what rules set and a kubelet must not carry: it waits for capture
	taints  []corev1.Taint            // in addition to the restored ones: what rules want, and what a new Node gets once
	gate    policy.Gate
	move    gateMove
	own     map[string]string // nodekeep's annotations; the object must carry no other of them
	owners  owners            // of what is restored
	dropped record.Dropped    // what the record holds and no Node can have
	outcome outcome
}

type gateMove int

const (
	leaveGate gateMove = iota
	closeGate          // put the gate on unless it holds already
	liftGate           // take every copy of it off
)

// decide says what a registering Node gets. Nothing is restored from a record that is unreadable or another machine's, and a gate on the
// Node then stays. A store that may be stale restores what it knows. It does not remove the gate, because something may still be missing.
// It stamps the Node. Without a stamp, no process could later correct what was restored from a stale record.
func decide(in incoming, k known, p policy.Policy) decision {
	switch {
	case k.unreadable:
		return decision{outcome: unreadableRecord, gate: p.Gate()}.withLabels(in, k, p).withTaints(in, k, p)
	case k.isolated:
		return decision{outcome: otherMachine, gate: p.Gate()}.withLabels(in, k, p).withTaints(in, k, p)
	}
	d := decision{restore: restorable(in, k, p), gate: p.Gate(), dropped: k.record.Dropped}.withLabels(in, k, p)
	d.outcome = outcomeOf(d)
	if k.record.Quarantined != nil { // what was followed and no kubelet may set waits for an operator
		d.outcome = deferredSome
	}
	if k.current && !k.undecided {
		d.move = liftGate
	}
	if len(d.restore.Protected)+len(d.later) > 0 || k.record.Quarantined != nil {
		d.move = closeGate
	}
	return d.withTaints(in, k, p)
}

// withLabels completes a decision by the labels that rules set on a Node which has what is restored. Where nothing may be taken from the record,
// the facts alone decide.
func (d decision) withLabels(in incoming, k known, p policy.Policy) decision {
	facts := in.facts
	facts.Labels = d.labelsAfter(in)
	var remembered map[string]record.Derived
	if d.outcome != unreadableRecord && d.outcome != otherMachine && in.machine.Compare(k.record.Machine) == record.SameMachine {
		remembered = k.record.Derived
	}
	result := p.Classify(facts, remembered, k.now)
	if p.Held() {
		kept := maps.Clone(remembered)
		maps.DeleteFunc(kept, func(key string, derived record.Derived) bool { return !derived.Absent && in.shows(key) })
		result.Labels = result.OnlyAdd(kept, remembered, func(item string) bool { return in.shows(item) || d.restores(item) })
	}
	for key, derived := range result.Labels {
		if _, blocked := result.Blocked[key]; blocked && derived.Absent && in.shows(key) {
			continue // whether it is to be removed is not known
		}
		derived.Brought = derived.Absent && in.shows(key)
		delete(d.restore.Add, key) // the rule's value comes first; the record keeps the other
		delete(d.restore.Protected, key)
		into := &d.labels
		if _, deferred := p.Defers(key); deferred && !derived.Absent && in.occasion == policy.CreateByKubelet {
			into = &d.later
		}
		if *into == nil {
			*into = map[string]record.Derived{}
		}
		(*into)[key] = derived
	}
	if !policy.RoomFor(d.labels, d.otherAnnotations(in)) { // what is not listed would count as an operator's, so it waits for capture
		waiting := maps.Clone(d.labels)
		maps.DeleteFunc(waiting, func(_ string, derived record.Derived) bool { return derived.Absent })
		d.labels, d.later = nil, merged(d.later, waiting)
	}
	return d
}

// restores reports whether an item is restored, now or by capture.
func (d decision) restores(item string) bool {
	_, now := d.restore.Add[item]
	_, later := d.restore.Protected[item]
	return now || later
}

// otherAnnotations is the size of the annotations that the Node will have, without nodekeep's own.
func (d decision) otherAnnotations(in incoming) int {
	return policy.AnnotationBytes(in.annotations) + policy.AnnotationBytes(record.SplitAnnotations(d.restore.Add))
}

// labelsAfter are the labels that the Node will have, those that are still to come included.
func (d decision) labelsAfter(in incoming) map[string]string {
	after := make(map[string]string, len(in.labels)+len(d.restore.Add)+len(d.restore.Protected)+len(d.labels)+len(d.later))
	for _, some := range []map[string]string{in.labels, d.restore.Add, d.restore.Protected} {
		maps.Copy(after, some)
	}
	for _, some := range []map[string]record.Derived{d.labels, d.later} {
		for key, derived := range some {
			if after[key] = derived.Value; derived.Absent {
				delete(after, key)
			}
		}
	}
	return after
}

// restorable is what the registering Node lacks of its record.
func restorable(in incoming, k known, p policy.Policy) policy.Restore {
	return p.Restorable(
		policy.Kept{Items: in.items(p), Machine: in.machine, AnnotationBytes: policy.AnnotationBytes(in.annotations)},
		policy.Kept{Items: k.record.Items(), Machine: k.record.Machine}, in.occasion)
}

// withTaints completes a decision by the stamp, and by the taints that follow from the Node's final labels. Labels that are still to be
// added are included. A taint of the Node's own, or a restored one, is never doubled.
//
// If the gate stays on an object that has no room for a stamp, capture does it instead.
func (d decision) withTaints(in incoming, k known, p policy.Policy) decision {
	final := d.labelsAfter(in)
	_, restored, _ := policy.SplitItems(d.restore.Add)
	taken := slices.Concat(in.taints, restored)
	byRule := policy.FreeOf(p.TaintsFor(final), taken)
	once := policy.FreeOf(p.RegistrationTaints(final), taken)

	d.owners = d.ownersAfter(in, k, p)
	list := func() map[string]string {
		return policy.Own{Stamp: d.stampOf(in, k, p), Taints: byRule, Labels: d.labels}.Annotations(d.otherAnnotations(in))
	}
	if d.own = list(); d.own[policy.StampAnnotation] == "" && d.owners.after != nil {
		d.owners = owners{}
		d.own = list()
	}
	if d.own[policy.StampAnnotation] == "" && d.gatedAfter(in) {
		delete(d.own, policy.TaintsAnnotation)
		return d
	}
	d.taints = slices.Concat(byRule, once)
	return d
}

// stampOf is what the stamp says of the object once the decision is carried out. Nothing is claimed of an object from
// which the record was kept.
func (d decision) stampOf(in incoming, k known, p policy.Policy) record.Stamp {
	if d.outcome == unreadableRecord || d.outcome == otherMachine {
		return record.Stamp{}
	}
	from := k.record
	if d.owners.after == nil {
		from = from.WithoutOwners()
	}
	stamp := record.Stamp{Brought: brought(in, k.record, d, p)}.With(d.restore.Add, from, 0)
	if k.follow != nil && len(stamp.Given) > 0 {
		stamp.Followed = k.record.Followed
	}
	return stamp
}

// gatedAfter reports whether the object will carry the gate.
func (d decision) gatedAfter(in incoming) bool {
	return d.move == closeGate || d.move == leaveGate && d.gate.On(in.taints)
}

// bytes is how much the decision adds to the object, about.
func (d decision) bytes() int {
	size := d.owners.bytes()
	for _, some := range []map[string]string{d.own, d.restore.Add} {
		for key, value := range some {
			size += len(key) + len(value)
		}
	}
	for key, derived := range d.labels {
		size += len(key) + len(derived.Value)
	}
	for _, taint := range d.taints {
		size += len(taint.Key) + len(taint.Value) + len(taint.Effect)
	}
	return size
}

// withoutItems is the decision for a Node that has no room. Nothing is listed as set, and the missing items wait behind the gate.
func (d decision) withoutItems() decision {
	small := decision{outcome: tooLarge, gate: d.gate}
	if len(d.restore.Add)+len(d.restore.Protected)+len(d.labels)+len(d.later)+len(d.taints) > 0 {
		small.move = closeGate
	}
	return small
}

// brought are the recorded keys that the Node has in its CREATE and keeps, with its own values. If such a key is missing later, it was
// removed from this very object. The labels of its kubelet's own are among them.
func brought(in incoming, r record.Record, d decision, p policy.Policy) map[string]string {
	items := in.items(p)
	brought := in.own(items, r, p)
	for _, e := range r.Entries {
		if value, is := items[e.Key]; is && !e.Removed && !d.gate.Is(record.Taint(e.Key, "")) {
			brought[e.Key] = record.Listed(e.Key, value)
		}
	}
	maps.DeleteFunc(brought, func(key, _ string) bool {
		_, replaced := d.restore.Add[key]
		_, derived := d.labels[key]
		return replaced || derived
	})
	return brought
}

// own are the items of a kubelet's own. They are labels that it brings and a client might have set. They are also taints that a client has
// removed from its Node before. Once the API server has lost the managers of a label, nothing else says that it is the kubelet's. Of a taint nothing ever does. But one
// that the kubelet brings and that a controller removes each time belongs to the start.
func (in incoming) own(items map[string]string, r record.Record, p policy.Policy) map[string]string {
	own := map[string]string{}
	if in.occasion != policy.CreateByKubelet || len(in.labels) > manyLabels {
		return own
	}
	for key, value := range items {
		e, known := r.Entry(key)
		label, start := record.IsLabel(key) && (!known || e.Removed), record.IsTaint(key) && known && e.Removed
		if (label || start) && p.Selects(key) {
			own[key] = record.Listed(key, value)
		}
	}
	if len(own) > policy.MaxOwn {
		clear(own)
	}
	return own
}

// manyLabels is more than a Node has. Of an object with more, not each is looked at.
const manyLabels = 1000

func outcomeOf(d decision) outcome {
	switch {
	case len(d.restore.Protected)+len(d.later) > 0:
		return deferredSome
	case len(d.restore.Add) > 0:
		return restoredAll
	default:
		return nothingMissing
	}
}
