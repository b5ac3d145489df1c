package capture

import (
	"math"
	"time"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
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
	plan.Plan
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

// Decide returns the next action: observe, merge, write the record if needed, change the Node, lift the gate. If found, there is a record. During an emergency
// the gate is lifted first, as an operator lifts it. What the Node lacks does not matter then, nor what the record says.
func Decide(entry store.Entry, found bool, node *observe.Node, event Event, in plan.Circumstances) Action {
	if opens(in.Policy, node, event) {
		return lift(in.Policy.Gate())
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
	action := Action{Plan: plan.ForLive(prev, next, node, o, in)}
	action.Step = stepFor(action.Plan)
	current := event == Present && !next.Ahead(o) && !next.Isolated()
	if current {
		if len(action.NoRoom) == 0 { // else they are still wanted
			next.Derived = action.LastRuled(prev, node, in)
		}
		if found {
			next = history.FollowingRules(prev, next, action.ItemsOn(node), in.Now)
		}
	}
	if turn != policy.Stays || foreign || !found && (prev.Followed != "" || in.Ambiguous) || record.Write(prev, next, o, action.Complete()) {
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

// lift returns what opens a Node in an emergency.
func lift(gate policy.Gate) Action {
	return Action{Step: Lift, Plan: plan.Plan{Edits: plan.Lift(gate), ByClient: true}}
}

// DecideAbsent returns the next action where there is no such Node. Nothing else is known of its end.
func DecideAbsent(entry store.Entry, found bool, in plan.Circumstances) Action {
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
func accept(r record.Record, side store.Side, live record.Object, in plan.Circumstances) (action Action, decided bool) {
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

// stepFor names what a plan does.
func stepFor(p plan.Plan) Step {
	switch {
	case !p.Complete() || p.Any(plan.Registration):
		return Complete
	case p.LiftsGate() && (p.Any(plan.Derivation) || p.ChangesLabels()):
		return Complete
	case p.LiftsGate():
		return Lift
	case p.ListsTaints() || p.ChangesLabels() || p.WriteLabelList:
		return FollowRules
	case len(p.Edits) > 0: // whatever their causes are
		return Complete
	case len(p.Owners) > 0:
		return HandOver
	default:
		return Nothing
	}
}

// stored returns a time as records have it: whole seconds, UTC.
func stored(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }
