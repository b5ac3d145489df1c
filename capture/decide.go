package capture

import (
	"slices"
	"time"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
)

// Presence is how a Node was observed: whether it exists.
type Presence int

// The states of presence.
const (
	NodePresent Presence = iota // the Node exists, in this state
	NodeDeleted                 // the Node object is deleted, and this was its last state
	NodeAbsent                  // there is no such Node, as far as the watch has shown
)

// Action is the next action for one Node: a record to write, else a change of the Node, else nothing. The next action is decided
// afterwards, with the API server's answer.
type Action struct {
	Step   Step
	Record *record.Record // what to write; nil: nothing
	plan.Plan
}

// Step names an action, for logs and metrics.
type Step string

// The steps.
const (
	NoStep Step = "nothing"

	StepCreateRecord  Step = "create"    // the first record of a Node
	StepFollowMachine Step = "follow"    // the first record of a Node whose machine had another name before
	StepUpdateRecord  Step = "update"    // the record of the Node changed
	StepAdoptObject   Step = "adopt"     // a new Node object has all that the record says
	StepMarkDeleted   Step = "mark_gone" // the Node object is deleted
	StepQuarantine    Step = "isolate"   // another machine has the name: the record of the old one is set aside
	StepRenameLabel   Step = "rename"    // a migration has renamed a label of the record
	StepReturnMachine Step = "return"    // a machine has its name again, and gets the record that it had
	StepNewMachine    Step = "begin"     // another machine has the name and begins with nothing: the record of the old one is set aside
	StepApplyDecision Step = "accept"    // an operator has decided between two machines
	StepEndQuarantine Step = "release"   // the policy has no quarantine any more
	StepResetVersions Step = "reset"     // the record is of another cluster, or of a state that a restored backup has undone: its values stay, its versions go

	StepRestore       Step = "complete"    // restore what is missing, correct what was restored from a stale record
	StepApplyRules    Step = "apply_rules" // taints follow the labels
	StepLiftGate      Step = "lift_gate"
	StepNoteBoot      Step = "note_boot" // the stamp names the boot of the machine, which adds no taint
	StepRestoreOwners Step = "hand_over" // give restored labels and annotations their owners again
)

// Decide returns the next action: observe, merge, write the record if needed, change the Node, lift the gate. If found, there is a record. During an emergency
// the gate is lifted first, as an operator lifts it. What the Node lacks does not matter then, nor what the record says.
func Decide(entry store.Entry, found bool, node *observe.Node, presence Presence, inputs plan.Inputs) Action {
	if lift, lifts := emergencyLift(inputs.Policy, node, presence); lifts {
		return lift
	}
	prev, versionsDropped := entry.Record.Rebase(inputs.ClusterUID, record.AnyVersion)
	if accepted, decided := accept(prev, entry.AcceptedSide, record.Object{UID: node.UID, Version: node.Version}, inputs); decided {
		return accepted
	}
	prev, transition := node.Transition(prev, inputs.Policy, truncateToSecond(inputs.Now))
	if transition == policy.NewMachine && inputs.Predecessor != nil {
		prev = inputs.Predecessor.InPlaceOf(prev)
	}
	o := node.Observation(prev, inputs.Policy, inputs.GuardInForce)
	if presence == NodeDeleted {
		o.Final, o.DeletedAt = true, truncateToSecond(inputs.Now)
	}
	// If the stamp says that the webhook restored from the record of another Node, that record is gone, too. What was restored stays on the Node: it does not
	// count as removed, as it does below for a Node that must not follow that record.
	if (!found || transition == policy.NewMachine) && presence == NodePresent && !inputs.MachineAmbiguous {
		o.Stamp.Followed = prev.Followed
	}
	next := node.Merge(prev, o, inputs.Policy, inputs.Now)
	if transition == policy.Isolates {
		return Action{Step: StepQuarantine, Record: &next}
	}
	if o.Stamp.Followed != "" && o.Stamp.Followed != prev.Followed {
		next = record.Unfollow(next, o)
	}
	renamed := false
	if presence == NodePresent && !inputs.Policy.RulesHeld() && !node.Deleting() && !next.Ahead(o) {
		next, renamed = node.Renamed(next, inputs.Policy, inputs.GuardInForce, inputs.Now)
	}
	action := actionOf(plan.ForLive(prev, next, node, o, inputs))
	current := presence == NodePresent && !next.Ahead(o) && !next.WholeRecordQuarantined()
	if current {
		if len(action.LabelsWithoutRoom) == 0 { // else the labels without room would be dropped from the record
			next.RuleLabels = action.RuleLabelsToRecord(prev, node, inputs)
		}
		if found {
			next = history.AppendRules(prev, next, action.ItemsAfter(node), inputs.Now)
		}
	}
	if transition != policy.Stays || versionsDropped || !found && (prev.Followed != "" || inputs.MachineAmbiguous) || record.WorthWriting(prev, next, o, action.RestoresNothing()) {
		step := recordStep(prev, next, found, versionsDropped)
		switch {
		case transition == policy.Returns:
			step = StepReturnMachine
		case transition == policy.NewMachine && next.Followed == "":
			step = StepNewMachine
		case transition == policy.NewMachine:
			step = StepFollowMachine
		case renamed && step == StepUpdateRecord:
			step = StepRenameLabel
		}
		return Action{Step: step, Record: &next}
	}
	if !current || node.Deleting() {
		return Action{Step: NoStep}
	}
	return action
}

// emergencyLift returns the action that removes the gate because an emergency is declared. Otherwise, or if there is no gate, lifts is false.
func emergencyLift(pol policy.Policy, node *observe.Node, presence Presence) (lift Action, lifts bool) {
	if !pol.InEmergency() || presence != NodePresent || node.Deleting() || !pol.Gate().Present(node.Taints) {
		return Action{}, false
	}
	return actionOf(plan.Plan{Edits: plan.LiftGate(pol.Gate()), ByClient: true}), true
}

// accept returns the action that ends a quarantine by an operator's decision: it writes the record of the accepted side, for the machine that has the name
// now. Without a decision, a quarantine ends only if the policy releases it.
func accept(r record.Record, side store.Side, live record.Object, inputs plan.Inputs) (action Action, decided bool) {
	released, ok := inputs.Policy.Releases(r, truncateToSecond(inputs.Now))
	switch {
	case r.Quarantined == nil:
		return Action{}, false
	case side == store.OldMachine:
		r = record.AcceptOld(r, live)
	case side == store.NewMachine:
		r = record.AcceptNew(r)
	case ok:
		return Action{Step: StepEndQuarantine, Record: &released}, true
	default:
		return Action{}, false
	}
	return Action{Step: StepApplyDecision, Record: &r}, true
}

func recordStep(prev, next record.Record, found, versionsDropped bool) Step {
	switch {
	case versionsDropped:
		return StepResetVersions
	case !found && next.Followed != "":
		return StepFollowMachine
	case !found:
		return StepCreateRecord
	case !next.DeletedAt.IsZero() && prev.DeletedAt.IsZero():
		return StepMarkDeleted
	case prev.Newest().UID != next.Newest().UID:
		return StepAdoptObject
	default:
		return StepUpdateRecord
	}
}

// actionOf returns the action that makes a plan's change.
func actionOf(p plan.Plan) Action { return Action{Step: planStep(p), Plan: p} }

// planStep names what a plan does.
func planStep(p plan.Plan) Step {
	switch {
	case !p.RestoresNothing() || p.HasCause(plan.CauseRegistrationTaint):
		return StepRestore
	case p.LiftsGate() && (p.HasCause(plan.CauseDerivedTaint) || p.HasRuleEdits()):
		return StepRestore
	case p.LiftsGate():
		return StepLiftGate
	case p.WritesTaintsAnnotation() || p.HasRuleEdits() || p.WriteLabelsAnnotation:
		return StepApplyRules
	case len(p.Edits) > 0: // whatever their causes are
		return StepRestore
	case len(p.RestoredOwners) > 0:
		return StepRestoreOwners
	case p.Boot != "":
		return StepNoteBoot
	default:
		return NoStep
	}
}

// DecideAbsent returns the next action where there is no such Node. Nothing else is known of its end.
func DecideAbsent(entry store.Entry, found bool, inputs plan.Inputs) Action {
	if accepted, decided := accept(entry.Record, entry.AcceptedSide, record.Object{}, inputs); decided {
		return accepted
	}
	next, renamed := entry.Record, false
	if found && !inputs.Policy.RulesHeld() {
		next, renamed = observe.RenamedWithoutNode(next, inputs.Policy, inputs.Now)
	}
	switch {
	case found && next.DeletedAt.IsZero():
		next.DeletedAt = truncateToSecond(inputs.Now)
		return Action{Step: StepMarkDeleted, Record: &next}
	case renamed:
		return Action{Step: StepRenameLabel, Record: &next}
	default:
		return Action{Step: NoStep}
	}
}

// predecessor is what the records say of the machine of a Node under other Node names.
type predecessor struct {
	record      record.Record // what the Node begins with
	pendingNode string        // a Node that does not exist, whose last state or deletion is still to be recorded; empty: there is none
	// Nodes that could be this machine, if it cannot be told which: there are several, or the only one exists, is quarantined, or was followed. Then only
	// their taints are restored.
	candidates []string
}

// predecessorOf finds what the machine of a Node had under another name. It is pure: observed returns what was observed of a Node.
func predecessorOf(node *observe.Node, records []record.Record, observed func(name string) (deleted []*observe.Node, live *observe.Node), clusterUID string, now time.Time) predecessor {
	old, unique, candidates := record.Predecessor(node.Name, node.Machine, records)
	if prev := old; unique {
		candidates = []string{old.Node}
		if old, _ = old.Rebase(clusterUID, record.AnyVersion); node.Version < old.Newest().Version {
			candidates = append(candidates, node.Name) // the old Node was changed after this one was, so both existed at once: they are two machines
		}
		for _, r := range records { // a live Node with this machine counts, unless its record is known to claim the machine only since later
			_, live := observed(r.Node)
			if r.Node != candidates[0] && r.Node != node.Name && live != nil && node.Machine.Agrees(live.Machine) && !r.ClaimedMachineAfter(prev) {
				candidates = append(candidates, r.Node)
			}
		}
	}
	if len(candidates) == 1 {
		switch deleted, live := observed(candidates[0]); {
		case unique && record.SetAsideByAnother(old, records), unique && live == nil && len(deleted) == 0:
			return predecessor{record: observe.Follow(old, node.Name, node.Machine, now)}
		case live == nil && !slices.ContainsFunc(records, func(r record.Record) bool { return r.Node == candidates[0] && r.WholeRecordQuarantined() }):
			return predecessor{pendingNode: candidates[0]}
		}
	}
	taintsOnly, names := taintsOfCandidates(node, records, observed, clusterUID)
	if candidates = append(candidates, names...); len(candidates) == 0 {
		return predecessor{}
	}
	slices.Sort(candidates)
	return predecessor{record: taintsOnly, candidates: slices.Compact(candidates)}
}

// taintsOfCandidates returns the record that a Node begins with where its machine may be one of several. A Node that exists, or was seen after this one,
// is another machine.
func taintsOfCandidates(node *observe.Node, records []record.Record, observed func(name string) (deleted []*observe.Node, live *observe.Node), clusterUID string) (r record.Record, names []string) {
	var older []record.Record
	for _, r := range records {
		r, _ = r.Rebase(clusterUID, record.AnyVersion)
		if _, live := observed(r.Node); live == nil && r.Newest().Version <= node.Version {
			older = append(older, r)
		}
	}
	return record.TaintsOnlyOf(node.Name, node.Machine, older)
}

// truncateToSecond returns a time as records have it: whole seconds, UTC.
func truncateToSecond(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }

// soonest returns the shortest of waits; 0 is none.
func soonest(waits ...time.Duration) (soonest time.Duration) {
	for _, wait := range waits {
		if soonest == 0 || wait > 0 && wait < soonest {
			soonest = wait
		}
	}
	return soonest
}
