package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Removals is what the decision about a removal needs to know beyond the Node itself. It is read live, for a Node that [Plan] says is to be removed.
type Removals struct {
	Ledger Ledger
	// Nodes are the uids of all Nodes that the profile selects; true: the Node fails ([Profiles.Fails]).
	Nodes map[string]bool
	// Selected is how many Nodes all profiles together select.
	Selected int
	// Removed shows that what stands for the Node is removed already, or does not exist any more.
	Removed bool
	// Blocked is why the Node cannot be removed, whatever the ledger says. Pods run on it, no object was confirmed to stand for it, or something
	// could not be read. It is nil if nothing blocks the removal.
	Blocked *Brake
}

// Removes reports whether Nodes of the profile are removed that fail for good.
func (p CompiledProfile) Removes() bool { return slices.Contains(RemovalKinds(), p.OnFailure) }

// Fails reports whether a Node waits to be verified and an attempt of these checks did not pass on it.
func (p Profiles) Fails(node *Node) bool {
	profile, selected := p.Match(node.Labels)
	return selected && len(p.ClosingTaints(node.Taints)) > 0 && ParseProgress(node.Annotation).forProfile(profile, node.BootID).tried() > 0
}

// PassedAt returns when a Node passed the present checks of its profile, if the Node counts for [Control]. Otherwise it is zero.
func (p Profiles) PassedAt(node *Node) time.Time {
	profile, _ := p.Match(node.Labels)
	progress := ParseProgress(node.Annotation)
	if !p.Controls(node) || progress.Hash != profile.Hash || progress.Last == nil || progress.Last.Result != VerdictPassed {
		return time.Time{}
	}
	return progress.Last.Time
}

// MayRemove reports whether nodekeep removes a Node that fails for good. Its profile must remove Nodes, and this Node object must never have taken
// workloads. It has taken some if a round has ended (see also [DoNote]). The same holds if its taint is not that of its registration. A kubelet can
// forge this only for its own Node: the Node is removed, or not.
func (p Profiles) MayRemove(node *Node) bool {
	profile, _ := p.Match(node.Labels)
	return profile.Removes() && ParseProgress(node.Annotation).Round == 0 && !slices.ContainsFunc(p.ClosingTaints(node.Taints), func(taint corev1.Taint) bool {
		return taint.Key != profile.Taint.Key || taint.Value != profile.Taint.Value
	})
}

// removal returns the next step after an attempt has failed. The action record records the attempt, and the Node stays.
//
// The action is [DoRemove] if the profile removes Nodes and this one was never open. At least attempts.max attempts of this round must have failed,
// and verified Nodes must pass what fails here.
func (o Observed) removal(record Action, prev Progress, profiles Profiles, now time.Time) Action {
	profile, progress := record.Profile, record.Progress
	if profile.ReportsOnly() {
		return o.Control.confirms(record, now)
	}
	if !profiles.MayRemove(o.Node) || progress.Failed < profile.MaxAttempts || progress.Removing != "" {
		return record
	}
	cleared, held := o.Control.clears(record, now)
	if held != nil {
		return record.blocked(held)
	}
	if cleared.Operation != DoRecord { // a verified Node is asked
		return cleared
	}
	record.Operation, record.prevBrake = DoRemove, prev.RemovalHeld
	record.Removal = Removal{Node: o.Node.Name, UID: o.Node.UID, Kind: profile.OnFailure, Profile: profile.Name, Time: now}
	return record
}

// clears decides whether verified Nodes pass all that failed in an attempt. If that is not known, next finds it out, or held is the brake of the
// removal.
//
// Some checks another Node can answer. For these, control Pods must have passed that were not started before the worker Pod. Two are asked, where so
// many Nodes can be. An earlier result is not enough: the check may fail by now, too.
//
// For checks of the machine itself, other Nodes must have passed the same checks since this one fails. Their worker Pods were created after its first
// failed attempt had ended. A fault that began between would otherwise be taken for one of this Node.
func (c Control) clears(record Action, now time.Time) (next Action, held *Brake) {
	profile, asked := record.Profile, false
	for _, name := range failedChecks(record.Judged) {
		if profile.isNetwork(name) {
			asked = true
		} else if !c.Passed.Add(-profile.longest()).After(record.Progress.FailingSince) || c.Passed.After(now) {
			return record, noControl("no other Node of the profile has passed check %s since this one fails", name)
		}
	}
	if !asked {
		return record, nil
	}
	passed, runs, deadline := 0, false, record.controlledUntil()
	requeue := deadline // when the first control Pod will have taken too long
	for _, pod := range c.Pods {
		judged := c.judged(pod, profile, now)
		switch fresh := !pod.Created.Before(record.Pod.Created); {
		case judged.Verdict == VerdictRunning:
			runs, requeue = true, earliest(judged.Deadline, requeue)
		case !fresh:
		case judged.Verdict == VerdictPassed:
			passed++
		case judged.Verdict == VerdictFailed:
			return record, BrakeOf(BrakeSharedFailure, fmt.Sprintf("verified Node %s fails check %s", pod.Node, judged.Check))
		default:
			return record, noControl("verified Node %s was asked the same, and gave no result", pod.Node)
		}
	}
	switch {
	case passed > 0 && passed >= min(controlsWanted, c.Able):
		return record, nil
	case !now.Before(deadline):
		return record, noControl("too few verified Nodes answered the same in time")
	case c.Due(profile, record.Pod.Created, now):
		return record.control(record.Pod.Created, now), nil
	case c.Able == 0 && !runs:
		return record, noControl("no Node of the profile is verified and Ready")
	}
	return record.next(DoWait, Diagnosis{Cause: CauseAsksVerified}, requeue), nil
}

func noControl(format string, values ...any) *Brake {
	return BrakeOf(BrakeNoControl, fmt.Sprintf(format, values...))
}

// blocked returns the action that records the attempt and the brake; the Node stays, and is tried on.
func (a Action) blocked(brake *Brake) Action {
	a.Operation, a.Progress.RemovalHeld = DoRecord, brake
	return a
}

// Decide decides whether the planned removal is carried out now. If so, the action is [DoRemove], otherwise [DoRecord] with the brake that holds it.
// After a brake has closed, a later failure is needed. The brake must already be closed when the worker Pod is created. A removal that was begun and
// has happened only needs to be marked as done: no brake holds that.
func (a Action) Decide(seen Removals, limits CompiledLimits, now time.Time) Action {
	switch prev, known := seen.Ledger.Find(a.Removal.UID); {
	case known && prev.Done:
		a.Operation, a.Progress.Removing = DoRecord, prev.Kind
		return a
	case known && seen.Removed:
		a.Removal, a.Progress.Removing = prev, prev.Kind
		return a
	}
	if brake := a.brake(seen, limits, now); brake != nil {
		return a.blocked(brake)
	}
	if held := a.prevBrake; held != nil && (held.End.IsZero() || held.End.After(a.Pod.Created)) {
		a.Operation = DoRecord // it closed at some time since then, maybe after this Pod failed
		return a
	}
	a.Progress.Removing = a.Removal.Kind
	return a
}

// brake returns the first brake that is open; nil: none is.
func (a Action) brake(seen Removals, limits CompiledLimits, now time.Time) *Brake {
	nodes := map[string]bool{}
	maps.Copy(nodes, seen.Nodes)
	nodes[a.Removal.UID] = true
	if seen.Blocked == nil && seen.Ledger.TooMany(a.Profile.Name, nodes, limits, now) {
		return &Brake{Reason: BrakeTooMany}
	}
	return cmp.Or(seen.Blocked, seen.Ledger.activeBrake(a.Profile.Name, a.Pod.Created), seen.Ledger.Holds(a.Removal, limits, seen.Selected, a.Pod.Created))
}

// Saw returns the brake that this attempt itself observed, of those that the ledger keeps; empty: none. A brake that was read from the ledger has an end.
// Noting it again would move that end. A Node that fails again and again would then keep the brake open for all Nodes.
func (a Action) Saw() BrakeReason {
	held := a.Progress.RemovalHeld
	switch {
	case held != nil && held.Reason.Kept() && held.End.IsZero():
		return held.Reason
	case a.Judged.Verdict == VerdictShared:
		return BrakeSharedFailure
	}
	return ""
}

// BlockedBy returns the action with a brake that was met while the removal was carried out.
func (a Action) BlockedBy(brake *Brake) Action {
	a.Progress.Removing = ""
	return a.blocked(brake)
}
