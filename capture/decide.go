package capture

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Event is how a Node was observed.
type Event int

// The events.
const (
	Present Event = iota // the Node exists, in this state
	Deleted              // the Node object is gone, and this was its last state
)

// Action is what is to be done next for one Node: a record to write, else a change of the Node, else nothing. After each the next one is
// decided, with what the API server answered.
type Action struct {
	Step  Step
	Write *record.Record // what to write; nil: nothing
	Change
	// Foreign are taints that rules want and cannot have: one of the same key and effect is there that is not nodekeep's.
	Foreign []corev1.Taint
}

// Step names an action, for logs and metrics.
type Step string

// The steps.
const (
	Nothing Step = "nothing"

	Create   Step = "create"    // the first record of a Node
	Update   Step = "update"    // what is remembered of the Node changed
	Adopt    Step = "adopt"     // a new Node object has all that the record says
	MarkGone Step = "mark_gone" // the Node object is gone
	Isolate  Step = "isolate"   // another machine has the name: what was remembered is set aside
	Accept   Step = "accept"    // an operator has decided between two machines
	Reset    Step = "reset"     // the record is not of this cluster: its values stay, its versions go

	Complete    Step = "complete"     // restore what is missing, correct what was restored from a stale record
	FollowRules Step = "follow_rules" // taints follow the labels
	Lift        Step = "lift_gate"
)

// Circumstances are what an action depends on beside the record and the Node.
type Circumstances struct {
	Policy  policy.Policy
	Guarded bool            // the guard policies are in force
	Cluster string          // UID of the namespace kube-system; empty where it is not known
	Refused map[string]bool // keys that the API server has refused on this very object
	Now     time.Time
}

// Decide is the next action: observe -> merge -> write the record if that is worth a write -> change the Node -> lift the gate.
// found says that there is a record.
func Decide(entry store.Entry, found bool, node *observe.Node, event Event, in Circumstances) Action {
	prev, foreign := entry.Record.Rebase(in.Cluster, math.MaxUint64)
	if accepted, decided := accept(prev, entry.Accepted, record.Object{UID: node.UID, Version: node.Version}); decided {
		return accepted
	}
	o := node.Observation(prev, in.Policy, in.Guarded)
	if event == Deleted {
		o.Final, o.DeletedAt = true, stored(in.Now)
	}
	next, isolated := node.Merge(prev, o, in.Policy, in.Now)
	if isolated {
		return Action{Step: Isolate, Write: &next}
	}
	change, taken := changeOf(next, node, o, in)
	if foreign || record.Write(prev, next, o, change.complete()) {
		return Action{Step: stepOf(prev, next, found, foreign), Write: &next}
	}
	if event == Deleted || node.Deleting() || next.Ahead(o) || next.Quarantined != nil {
		return Action{Step: Nothing}
	}
	return Action{Step: change.step(), Change: change, Foreign: taken}
}

// DecideAbsent is the next action where the API server has answered that there is no such Node.
func DecideAbsent(entry store.Entry, now time.Time) Action {
	if accepted, decided := accept(entry.Record, entry.Accepted, record.Object{}); decided {
		return accepted
	}
	if !entry.Record.DeletedAt.IsZero() {
		return Action{Step: Nothing}
	}
	gone := entry.Record.Deleted(stored(now))
	return Action{Step: MarkGone, Write: &gone}
}

// accept carries out what an operator has decided: the record of the side that is right, for the machine that has the name now.
func accept(r record.Record, side store.Side, live record.Object) (action Action, decided bool) {
	switch {
	case r.Quarantined == nil:
		return Action{}, false
	case side == store.OldMachine:
		r = record.AcceptOld(r, live)
	case side == store.NewMachine:
		r = record.AcceptNew(r)
	default:
		return Action{}, false
	}
	return Action{Step: Accept, Write: &r}, true
}

func stepOf(prev, next record.Record, found, foreign bool) Step {
	switch {
	case foreign:
		return Reset
	case !found:
		return Create
	case !next.DeletedAt.IsZero() && prev.DeletedAt.IsZero():
		return MarkGone
	case prev.Newest().UID != next.Newest().UID:
		return Adopt
	default:
		return Update
	}
}

// changeOf is what is to be changed on the Node, were it the newest state. foreign are taints that rules want and cannot have.
func changeOf(r record.Record, node *observe.Node, o record.Observation, in Circumstances) (change Change, foreign []corev1.Taint) {
	p := in.Policy
	restore := p.Missing(policy.Kept{Items: node.Items, Machine: node.Machine}, policy.Kept{Items: record.Missing(r, o), Machine: r.Machine}, policy.Live)
	correct, remove := record.Stale(r, o)
	change.Give, change.Correct, change.Remove = restore.Add, correct, remove
	refused := change.leaveOut(in.Refused)

	final := change.itemsOn(node)
	taints, _ := change.taintsOn(node, p.Gate())
	derived := node.DerivedTaints(r, p, in.Guarded)
	change.Put, change.Take, foreign = follow(taints, derived, p.TaintsFor(final))
	change.Derived = derivedAfter(derived, change.Put, change.Take)
	change.Unlist = node.ListsTaintsThatAreGone()

	change.LiftGate = p.Gate().On(node.Taints) && !refused
	if p.Gate().On(node.Taints) && !node.Registered(in.Guarded) && (len(change.Give) > 0 || change.LiftGate) { // what is removed while the Node waits is not fought over
		taints, _ = change.taintsOn(node, p.Gate())
		change.Register = policy.FreeOf(p.RegistrationTaints(final), taints)
	}
	change.Stamp, _ = node.Stamp(in.Guarded)
	return change, foreign
}

// follow compares the taints of a Node, of which some are derived, with what the rules want.
func follow(taints, derived, want []corev1.Taint) (put, take, foreign []corev1.Taint) {
	for _, taint := range derived {
		if !slices.Contains(want, taint) {
			take = append(take, taint)
		}
	}
	others := slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return slices.Contains(derived, undated(taint)) })
	for _, taint := range want {
		switch {
		case slices.Contains(derived, taint):
		case len(policy.FreeOf([]corev1.Taint{taint}, others)) == 0:
			foreign = append(foreign, taint)
		default:
			put = append(put, taint)
		}
	}
	return put, take, foreign
}

// derivedAfter are the Node's derived taints once some are put on and others are removed.
func derivedAfter(derived, put, take []corev1.Taint) []corev1.Taint {
	left := slices.DeleteFunc(slices.Clone(derived), func(taint corev1.Taint) bool { return slices.Contains(take, taint) })
	left = append(left, put...)
	record.SortTaints(left)
	return left
}

// undated is a taint without the moment at which it was put on, which identifies nothing.
func undated(taint corev1.Taint) corev1.Taint {
	taint.TimeAdded = nil
	return taint
}

// stored is a time as records have it: whole seconds, UTC.
func stored(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }
