package capture

import (
	"math"
	"slices"
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
	NoStep Step = "nothing"

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

	Complete   Step = "complete"    // restore what is missing, correct what was restored from a stale record
	ApplyRules Step = "apply_rules" // taints follow the labels
	Lift       Step = "lift_gate"
	HandOver   Step = "hand_over" // give restored labels and annotations their owners again
)

// Decide returns the next action: observe, merge, write the record if needed, change the Node, lift the gate. If found, there is a record. During an emergency
// the gate is lifted first, as an operator lifts it. What the Node lacks does not matter then, nor what the record says.
func Decide(entry store.Entry, found bool, node *observe.Node, event Event, in plan.Circumstances) Action {
	if opening, opens := openingOf(in.Policy, node, event); opens {
		return opening
	}
	prev, foreign := entry.Record.Rebase(in.Cluster, math.MaxUint64)
	if accepted, decided := accept(prev, entry.Accepted, record.Object{UID: node.UID, Version: node.Version}, in); decided {
		return accepted
	}
	prev, transition := node.Transition(prev, in.Policy, recordTime(in.Now))
	if transition == policy.Begins && in.Predecessor != nil {
		prev = in.Predecessor.Replace(prev)
	}
	o := node.Observation(prev, in.Policy, in.Guarded)
	if event == Deleted {
		o.Final, o.DeletedAt = true, recordTime(in.Now)
	}
	// No record of the machine is left: what the webhook restored from it is kept as if the record still said so.
	if (!found || transition == policy.Begins) && event == Present && !in.Ambiguous {
		o.Stamp.Followed = prev.Followed
	}
	next := node.Merge(prev, o, in.Policy, in.Now)
	if transition == policy.Isolates {
		return Action{Step: Isolate, Write: &next}
	}
	if o.Stamp.Followed != "" && o.Stamp.Followed != prev.Followed {
		next = record.Unfollow(next, o)
	}
	renamed := false
	if event == Present && !in.Policy.Held() && !node.Deleting() && !next.Ahead(o) {
		next, renamed = node.Renamed(next, in.Policy, in.Guarded, in.Now)
	}
	action := actionOf(plan.ForLive(prev, next, node, o, in))
	current := event == Present && !next.Ahead(o) && !next.Isolated()
	if current {
		if len(action.NoRoom) == 0 { // else the labels without room would be dropped from the record
			next.Derived = action.LastRuled(prev, node, in)
		}
		if found {
			next = history.AppendRules(prev, next, action.ItemsOn(node), in.Now)
		}
	}
	if transition != policy.Stays || foreign || !found && (prev.Followed != "" || in.Ambiguous) || record.Write(prev, next, o, action.Complete()) {
		step := stepOf(prev, next, found, foreign)
		switch {
		case transition == policy.Returns:
			step = Return
		case transition == policy.Begins && next.Followed == "":
			step = Begin
		case transition == policy.Begins:
			step = Follow
		case renamed && step == Update:
			step = Rename
		}
		return Action{Step: step, Write: &next}
	}
	if !current || node.Deleting() {
		return Action{Step: NoStep}
	}
	return action
}

// openingOf returns what opens a Node because an emergency is declared. Otherwise, or if there is no gate, opens is false.
func openingOf(p policy.Policy, node *observe.Node, event Event) (opening Action, opens bool) {
	if !p.Suspended() || event != Present || node.Deleting() || !p.Gate().Present(node.Taints) {
		return Action{}, false
	}
	return actionOf(plan.Plan{Edits: plan.Lift(p.Gate()), ByClient: true}), true
}

// accept applies an operator's decision: the record of the accepted side, for the machine that has the name now. A policy without a
// quarantine is one, too.
func accept(r record.Record, side store.Side, live record.Object, in plan.Circumstances) (action Action, decided bool) {
	released, ok := in.Policy.Releases(r, recordTime(in.Now))
	switch {
	case r.Quarantined == nil:
		return Action{}, false
	case side == store.OldMachine:
		r = record.AcceptOld(r, live)
	case side == store.NewMachine:
		r = record.AcceptNew(r)
	case ok:
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

// actionOf returns the action that makes a plan's change.
func actionOf(p plan.Plan) Action { return Action{Step: stepFor(p), Plan: p} }

// stepFor names what a plan does.
func stepFor(p plan.Plan) Step {
	switch {
	case !p.Complete() || p.HasCause(plan.Registration):
		return Complete
	case p.LiftsGate() && (p.HasCause(plan.Derivation) || p.ChangesLabels()):
		return Complete
	case p.LiftsGate():
		return Lift
	case p.ListsTaints() || p.ChangesLabels() || p.WriteLabelList:
		return ApplyRules
	case len(p.Edits) > 0: // whatever their causes are
		return Complete
	case len(p.Owners) > 0:
		return HandOver
	default:
		return NoStep
	}
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
		gone.DeletedAt = recordTime(in.Now)
		return Action{Step: MarkGone, Write: &gone}
	case renamed:
		return Action{Step: Rename, Write: &gone}
	default:
		return Action{Step: NoStep}
	}
}

// predecessor is what there is of the machine of a Node under other names.
type predecessor struct {
	record      record.Record // what the Node begins with
	pendingNode string        // a Node that does not exist, whose last state or deletion is still to be recorded; empty: there is none
	// Nodes that could be this machine, if it cannot be told which: there are several, or the only one exists, is quarantined, or was followed. Then only
	// their taints are restored.
	candidates []string
}

// predecessorOf finds what the machine of a Node had under another name. It is pure: look is what was observed of a Node.
func predecessorOf(node *observe.Node, records []record.Record, look func(name string) (gone []*observe.Node, live *observe.Node), cluster string, now time.Time) predecessor {
	old, unique, candidates := record.Predecessor(node.Name, node.Machine, records)
	if prev := old; unique {
		candidates = []string{old.Node}
		if old, _ = old.Rebase(cluster, math.MaxUint64); node.Version < old.Newest().Version {
			candidates = append(candidates, node.Name) // the two existed at once, so that these are two machines
		}
		for _, r := range records { // a live Node with this machine counts, unless its record is known to claim the machine only since later
			_, live := look(r.Node)
			if r.Node != candidates[0] && r.Node != node.Name && live != nil && node.Machine.Agrees(live.Machine) && !r.ClaimsAfter(prev) {
				candidates = append(candidates, r.Node)
			}
		}
	}
	if len(candidates) == 1 {
		switch gone, live := look(candidates[0]); {
		case unique && record.Superseded(old, records), unique && live == nil && len(gone) == 0:
			return predecessor{record: observe.Follow(old, node.Name, node.Machine, now)}
		case live == nil && !slices.ContainsFunc(records, func(r record.Record) bool { return r.Node == candidates[0] && r.Isolated() }):
			return predecessor{pendingNode: candidates[0]}
		}
	}
	tainted, names := taintedBefore(node, records, look, cluster)
	if candidates = append(candidates, names...); len(candidates) == 0 {
		return predecessor{}
	}
	slices.Sort(candidates)
	return predecessor{record: tainted, candidates: slices.Compact(candidates)}
}

// taintedBefore returns the record that a Node begins with where its machine may be one of several. A Node that exists, or was seen after this one,
// is another machine.
func taintedBefore(node *observe.Node, records []record.Record, look func(name string) (gone []*observe.Node, live *observe.Node), cluster string) (r record.Record, names []string) {
	var older []record.Record
	for _, r := range records {
		r, _ = r.Rebase(cluster, math.MaxUint64)
		if _, live := look(r.Node); live == nil && r.Newest().Version <= node.Version {
			older = append(older, r)
		}
	}
	return record.Tainted(node.Name, node.Machine, older)
}

// recordTime returns a time as records have it: whole seconds, UTC.
func recordTime(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }

// soonest returns the shortest of waits; 0 is none.
func soonest(waits ...time.Duration) (soonest time.Duration) {
	for _, wait := range waits {
		if soonest == 0 || wait > 0 && wait < soonest {
			soonest = wait
		}
	}
	return soonest
}
