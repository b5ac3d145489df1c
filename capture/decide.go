package capture

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
)

// Event is how a Node was observed.
type Event int

// The events.
const (
	Present Event = iota // the Node exists, in this state
	Deleted              // the Node object is deleted, and this was its last state
	Absent               // there is no such Node, as far as the watch has shown
)

// Action is the next action for one Node: a record to write, else a change of the Node, else nothing. The next action is decided
// afterwards, with the API server's answer.
type Action struct {
	Step  Step
	Write *record.Record // what to write; nil: nothing
	Change
	// Foreign are taints that rules want and cannot have. The Node has a taint of the same key and effect that is not nodekeep's.
	Foreign []corev1.Taint
	// Rules is what the rules for labels say.
	Rules classify.Result
	// Again is when to decide again although nothing is observed; 0: never.
	Again time.Duration
}

// Step names an action, for logs and metrics.
type Step string

// The steps.
const (
	Nothing Step = "nothing"

	Create   Step = "create"    // the first record of a Node
	Follow   Step = "follow"    // the first record of a Node whose machine had another name before
	Update   Step = "update"    // the record of the Node changed
	Adopt    Step = "adopt"     // a new Node object has all that the record says
	MarkGone Step = "mark_gone" // the Node object is deleted
	Isolate  Step = "isolate"   // another machine has the name: the record of the old one is set aside
	Rename   Step = "rename"    // a migration has renamed a label of the record
	Return   Step = "return"    // a machine has its name again, and gets the record that it had
	Begin    Step = "begin"     // another machine has the name and begins with nothing: the record of the old one is set aside
	Accept   Step = "accept"    // an operator has decided between two machines
	Release  Step = "release"   // the policy has no quarantine any more
	Reset    Step = "reset"     // the record is not of this cluster: its values stay, its versions go

	Complete    Step = "complete"     // restore what is missing, correct what was restored from a stale record
	FollowRules Step = "follow_rules" // taints follow the labels
	Lift        Step = "lift_gate"
	HandOver    Step = "hand_over" // give restored labels and annotations their owners again
)

// Circumstances are what an action depends on in addition to the record and the Node.
type Circumstances struct {
	Policy  policy.Policy
	Guarded bool   // the guard policies are in force
	Cluster string // UID of the namespace kube-system; empty where it is not known
	// Ambiguous says that the Node's machine cannot be followed. Its first record is written even if it is empty. Otherwise it would follow
	// later, when the other Nodes of that identity are deleted.
	Ambiguous bool
	// Devices are those of a Node, as far as rules use them; nil: they are not known.
	Devices func(node string) observe.Devices
	// Features are those of a Node's NodeFeature objects, as far as rules use them; nil: they are not known.
	Features func(node string) observe.Features
	// Follows is the first record of a machine that had another name before. It is for a Node whose record is another machine's.
	Follows *record.Record
	// Overdue says that the labels of the Node have broken rules of governance for as long as the policy allows.
	Overdue bool
	// Inventory is what sources say of a Node, see [classify.Facts]; nil: nothing is known.
	Inventory func(*observe.Node) map[string]map[string]string
	Refused   map[string]bool // keys that the API server has refused on this very object, and that wait
	Now       time.Time
	// Why receives the result of each rule for labels, with the reasons; nil: not needed.
	Why *[]classify.Step
}

// Decide is the next action: observe, merge, write the record if needed, change the Node, lift the gate. If found, there is a record. During an emergency
// the gate is lifted first, as an operator lifts it. What the Node lacks does not matter then, nor what the record says.
func Decide(entry store.Entry, found bool, node *observe.Node, event Event, in Circumstances) Action {
	if opens(in.Policy, node, event) {
		return lift()
	}
	prev, foreign := entry.Record.Rebase(in.Cluster, math.MaxUint64)
	if accepted, decided := accept(prev, entry.Accepted, record.Object{UID: node.UID, Version: node.Version}, in); decided {
		return accepted
	}
	prev, turn := node.Turn(prev, in.Policy, stored(in.Now))
	if turn == policy.Begins && in.Follows != nil {
		prev = in.Follows.Over(prev)
	}
	o := node.Observation(prev, in.Policy, in.Guarded)
	if event == Deleted {
		o.Final, o.DeletedAt = true, stored(in.Now)
	}
	if (!found || turn == policy.Begins) && event == Present && !in.Ambiguous { // no record of the machine is left that the webhook may have restored from: what the Node has counts
		o.Stamp.Followed = prev.Followed
	}
	next := node.Merge(prev, o, in.Policy, in.Now)
	if turn == policy.Isolates {
		return Action{Step: Isolate, Write: &next}
	}
	if o.Stamp.Followed != "" && o.Stamp.Followed != prev.Followed {
		next = record.Unfollow(next, o)
	}
	renamed := false
	if event == Present && !in.Policy.Held() && !node.Deleting() && !next.Ahead(o) {
		next, renamed = node.Renamed(next, in.Policy, in.Guarded, in.Now)
	}
	action := changeOf(prev, next, node, o, in)
	current := event == Present && !next.Ahead(o) && !next.Isolated()
	if current {
		if len(action.NoRoom) == 0 { // else they are still wanted
			next.Derived = withRefused(action.Labels, lastDerived(prev, node, nil), in.Refused)
		}
		if found {
			next = history.FollowingRules(prev, next, action.itemsOn(node), in.Now)
		}
	}
	if turn != policy.Stays || foreign || !found && (prev.Followed != "" || in.Ambiguous) || record.Write(prev, next, o, action.complete()) {
		step := stepOf(prev, next, found, foreign)
		switch {
		case turn == policy.Returns:
			step = Return
		case turn == policy.Begins && next.Followed == "":
			step = Begin
		case turn == policy.Begins:
			step = Follow
		case renamed && step == Update:
			step = Rename
		}
		return Action{Step: step, Write: &next}
	}
	if !current || node.Deleting() {
		return Action{Step: Nothing}
	}
	return action
}

// opens reports whether the gate is lifted because an emergency is declared.
func opens(p policy.Policy, node *observe.Node, event Event) bool {
	return p.Suspended() && event == Present && !node.Deleting() && p.Gate().On(node.Taints)
}

// lift is what opens a Node in an emergency.
func lift() Action { return Action{Step: Lift, Change: Change{LiftGate: true, ByClient: true}} }

// DecideAbsent is the next action where there is no such Node. Nothing else is known of its end.
func DecideAbsent(entry store.Entry, found bool, in Circumstances) Action {
	if accepted, decided := accept(entry.Record, entry.Accepted, record.Object{}, in); decided {
		return accepted
	}
	gone, renamed := entry.Record, false
	if found && !in.Policy.Held() {
		gone, renamed = observe.RenamedAway(gone, in.Policy, in.Now)
	}
	switch {
	case found && gone.DeletedAt.IsZero():
		gone.DeletedAt = stored(in.Now)
		return Action{Step: MarkGone, Write: &gone}
	case renamed:
		return Action{Step: Rename, Write: &gone}
	default:
		return Action{Step: Nothing}
	}
}

// accept applies an operator's decision: the record of the accepted side, for the machine that has the name now. A policy without a
// quarantine is one, too.
func accept(r record.Record, side store.Side, live record.Object, in Circumstances) (action Action, decided bool) {
	released, is := in.Policy.Releases(r, stored(in.Now))
	switch {
	case r.Quarantined == nil:
		return Action{}, false
	case side == store.OldMachine:
		r = record.AcceptOld(r, live)
	case side == store.NewMachine:
		r = record.AcceptNew(r)
	case is:
		return Action{Step: Release, Write: &released}, true
	default:
		return Action{}, false
	}
	return Action{Step: Accept, Write: &r}, true
}

func stepOf(prev, next record.Record, found, foreign bool) Step {
	switch {
	case foreign:
		return Reset
	case !found && next.Followed != "":
		return Follow
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

// changeOf is the change that the Node needs, if this is its newest state. The parameter prev is the record before the observation was
// merged.
func changeOf(prev, r record.Record, node *observe.Node, o record.Observation, in Circumstances) (next Action) {
	p, gated := in.Policy, in.Policy.Gate().On(node.Taints)
	restore := p.Restorable(node.Kept(), policy.Kept{Items: record.Missing(r, o), Machine: r.Machine}, policy.Live)
	correct, remove := record.Stale(r, o)
	var refused, rulesRefused bool
	next.Change, refused = Change{Add: restore.Add, Correct: correct, Remove: remove, From: r}.without(func(set setting) bool { return in.Refused[set.item] }, p.Gate())
	next.Rules, rulesRefused = next.followLabelRules(prev, r, node, in)

	final := next.itemsOn(node)
	taints, _ := next.taintsOn(node, p.Gate())
	derived := node.DerivedTaints(r, p, in.Guarded)
	next.AddTaints, next.RemoveTaints, next.Foreign = compareTaints(taints, derived, p.TaintsWith(noncompliant(node, final, next.Rules, derived, in), final))
	next.Derived = derivedAfter(derived, next.AddTaints, next.RemoveTaints)
	next.WriteTaintList = node.ListsTaintsThatAreGone()

	// This same change adds all that the Node still lacks. Items that were refused, have no room, or wait, keep the gate on.
	next.LiftGate = gated && !refused && !rulesRefused && len(next.NoRoom) == 0 && r.Quarantined == nil
	if gated && !node.Registered(in.Guarded) && (len(next.Add) > 0 || next.LiftGate) { // what is removed while the Node waits is not fought over
		taints, _ = next.taintsOn(node, p.Gate())
		next.RegisterTaints = policy.FreeOf(p.RegistrationTaints(final), taints)
	}
	var stamped bool
	if next.Stamp, stamped = node.Stamp(in.Guarded); !stamped && gated { // no webhook has listed them
		next.Stamp.Brought = node.Own(r, p)
	}
	next.handOver(r, node, in)
	next.Step, next.Again = next.step(), settlesIn(next.Rules, node, in.Now)
	return next
}

// compareTaints compares the taints of a Node, of which some are derived, with what the rules want.
func compareTaints(taints, derived, want []corev1.Taint) (add, remove, foreign []corev1.Taint) {
	for _, taint := range derived {
		if !slices.Contains(want, taint) {
			remove = append(remove, taint)
		}
	}
	others := slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return slices.Contains(derived, undated(taint)) })
	for _, taint := range want {
		switch {
		case slices.Contains(derived, taint):
		case len(policy.FreeOf([]corev1.Taint{taint}, others)) == 0:
			foreign = append(foreign, taint)
		default:
			add = append(add, taint)
		}
	}
	return add, remove, foreign
}

// derivedAfter are the Node's derived taints once some are added and others removed.
func derivedAfter(derived, added, removed []corev1.Taint) []corev1.Taint {
	left := slices.DeleteFunc(slices.Clone(derived), func(taint corev1.Taint) bool { return slices.Contains(removed, taint) })
	left = append(left, added...)
	record.SortTaints(left)
	return left
}

// undated is a taint without the time at which it was added, which identifies nothing.
func undated(taint corev1.Taint) corev1.Taint {
	taint.TimeAdded = nil
	return taint
}

// stored is a time as records have it: whole seconds, UTC.
func stored(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }
