package verify

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Do is what is to be done next about a Node.
type Do string

// What can be done.
const (
	DoNothing Do = "nothing" // until something is observed
	DoWait    Do = "wait"    // until something is observed, or until [Action.Again]
	DoStart   Do = "start"   // create a worker Pod for [Action.Attempt]
	DoDelete  Do = "delete"  // delete [Action.Pod]
	DoOpen    Do = "open"    // one PATCH: remove the taints, add the label, write the annotation
	DoControl Do = "control" // start the control Pod of the profile, and wait for it
	DoRecord  Do = "record"  // keep the report of an attempt that did not pass, write the annotation
	DoRemove  Do = "remove"  // remove the Node, unless [Action.Decide] says otherwise; then as DoRecord
	DoFree    Do = "free"    // one PATCH: remove the taints, write the annotation; the Node is not verified
	DoClose   Do = "close"   // write the annotation: another client removed the taint
	DoHold    Do = "hold"    // one PATCH: add the taint [Action.Hold], since the Node may be rebooting
	DoUnhold  Do = "unhold"  // one PATCH: remove what DoHold added, write the annotation; nothing else changes
	DoNote    Do = "note"    // write the annotation: the Node was open before its taint was added, so it is never removed; or a request
	DoRecheck Do = "recheck" // one PATCH: add the taint [Action.Hold], remove the label, write the annotation; the Node is checked again
	DoShow    Do = "show"    // write the condition
	DoReport  Do = "report"  // write the annotation: the checks passed on a Node whose profile only reports
	DoForget  Do = "forget"  // write the annotation: the profile that only reported selects the Node no more
)

// State is where a Node stands, for metrics and for display.
type State string

// The states.
const (
	StateOpen     State = "open"     // no taint of verification
	StateWaiting  State = "waiting"  // not tried yet
	StateChecking State = "checking" // a worker Pod exists
	StateRetrying State = "retrying" // an attempt did not pass
	StateStuck    State = "stuck"    // attempts.max attempts did not pass; it is tried on
	StateFailing  State = "failing"  // no taint of verification, and the last attempt did not pass; see [ModeReport]
)

// States returns all states.
func States() []State {
	return []State{StateOpen, StateWaiting, StateChecking, StateRetrying, StateStuck, StateFailing}
}

// Action is the next thing to do about a Node.
type Action struct {
	Do    Do
	Why   Why
	State State
	Again time.Time // when to look again though nothing was observed; zero: not
	Due   time.Time // when the deadline of the profile is; zero for a Node without the taint
	// Profile is what selects the Node; its zero value where none does.
	Profile CompiledProfile

	Attempt string   // DoStart
	First   bool     // DoStart: no attempt of the round was made before; it goes before retries
	Skip    []string // DoStart: checks that are left out at a cold start
	Pod     Pod      // DoDelete, DoOpen, DoRecord, DoRemove
	Force   bool     // DoDelete: without waiting for the kubelet
	// ControlOn is the Node that fails the same check; DoRecord of a failure that is shared.
	ControlOn string
	// ControlSince is when a control Pod that answers must not have been created before; DoControl.
	ControlSince time.Time
	Judged       Judged       // DoOpen, DoRecord, DoRemove
	Progress     Progress     // the annotation to write; what is known, where none is written
	Show         Projection   // DoShow
	Hold         corev1.Taint // DoHold, DoRecheck
	Removal      Removal      // DoRemove
	Recheck      string       // why an open Node is to be checked again; empty: it is not
	Braked       bool         // DoWait with Recheck: see [Room]

	reports    bool   // of an open Node whose profile only reports
	asked      bool   // it is to be checked now, on request
	heldBefore *Brake // DoRemove: what held the removal after the attempt before
}

// forceAfter is how long after its grace period a worker Pod that is being deleted may stay. After that its kubelet is taken not to answer.
const forceAfter = 10 * time.Second

// daemonSetInterval is how often the Pods of DaemonSets on a Node that waits for them are looked up.
const daemonSetInterval = 3 * time.Second

// Plan decides the next step for one Node. It depends only on its arguments. The taint alone decides whether a Node must be checked. Only a worker
// Pod that passed, of this Node object, this round and these checks, opens it. A profile without checks opens it when what it waits for holds.
func Plan(seen Observed, profiles Profiles, cluster Cluster, now time.Time) Action {
	action := next(seen, profiles, cluster, now)
	if action.reports {
		return seen.shown(action, now)
	}
	if seen.Refused != "" && action.Why.Cause == CauseAsksKubelet {
		action.Why = Why{CauseRefused, seen.Refused}
	}
	if action.Do == DoNothing || action.Do == DoWait {
		lasts, at := seen.lasts(action.Why, now)
		show, differs := seen.projection(action, lasts)
		if differs && show.Reason == seen.Node.Verified.Reason && show.Status == seen.Node.Verified.Status {
			differs, at = !now.Before(seen.Shown.Add(lasting)), seen.Shown.Add(lasting) // a detail that changes all the time is not a write each time
		}
		if differs { // it never delays anything else
			action.Do, action.Show = DoShow, show
		} else if at.After(now) {
			action.Again = earliest(action.Again, at)
		}
	}
	return action
}

// lasting is how long a Node must have waited for the same before its condition and an Event say so. Most waits end sooner, without a write.
const lasting = time.Minute

// lasts reports whether a Node has waited for the same long enough to say so. If not, at is when that will be; zero: such a wait is not shown.
func (seen Observed) lasts(why Why, now time.Time) (yes bool, at time.Time) {
	row, _ := why.Cause.Explain()
	if !row.Lasts || why.Cause == CauseRefused {
		return row.Lasts, time.Time{}
	}
	since := now
	if seen.Waits.Cause == why.Cause {
		since = seen.Waits.Since
	}
	at = since.Add(lasting)
	return !now.Before(at), at
}

func next(seen Observed, profiles Profiles, cluster Cluster, now time.Time) Action {
	node := seen.Node
	if node == nil || node.Deleting {
		return deleteAll(seen.Pods, "the Node is deleted", Action{Do: DoNothing, Why: Why{Cause: CauseNotVerified}}, now)
	}
	profile, selected := profiles.For(node.Labels)
	progress := ParseProgress(node.Annotation)
	held := profiles.HeldBy(node.Taints)
	if len(held) == 0 && profile.Reports() {
		return seen.reported(profile, progress, profiles, cluster, now)
	}
	if len(held) == 0 {
		action := opened(node, profile, progress, now)
		if action.Do == DoNothing {
			action = watchReboot(node, cluster, action, now)
		}
		if action.Do == DoNothing {
			action = recheck(seen, profiles, cluster, action, now)
		}
		return deleteAll(seen.Pods, "the Node has no taint of verification", action, now)
	}

	action := Action{Do: DoWait, State: StateWaiting, Profile: profile, Progress: progress}
	if profiles.Suspended { // first of all: its worker Pods may be on a machine that does not answer
		freed := action.freed(profiles, now)
		if again := progress.resumes(now).After(now) && progress.Last.Message == freed.Progress.Last.Message; !again {
			return freed
		} // else a client adds the taint again and again
	}
	// The taint is there. Labels decide about the profile, so others complete them first.
	if key := Incomplete(node.Taints, cluster.Gate); key != "" {
		return action.next(DoWait, Why{CauseOtherTaint, key}, time.Time{})
	}
	if !selected && len(seen.Pods) > 0 {
		return deleteAll(seen.Pods, "no profile selects the Node", action, now)
	}
	stranger, until, over := seen.strangers(profile, now)
	if over {
		return deletePod(stranger, "this process did not create the worker Pod", action, now)
	}
	seen.Pods = seen.own()
	action = seen.verify(action, held, profiles, cluster, now)
	if action.Do == DoWait && !until.IsZero() {
		action.Again = earliest(action.Again, until)
	}
	return action
}

// verify returns the next step for a Node that has the taint, and is complete. Pods are those that this process created.
func (seen Observed) verify(action Action, held []corev1.Taint, profiles Profiles, cluster Cluster, now time.Time) Action {
	node, profile, progress := seen.Node, action.Profile, action.Progress
	if at := progress.resumes(now); at.After(now) && len(seen.Pods) == 0 {
		return action.next(DoWait, Why{CauseTaintReturns, strconv.Itoa(progress.Returns)}, at)
	}
	if profile.Name == "" || profile.Reports() {
		return action.freed(profiles, now)
	}
	if after, ok := afterHold(node, held, cluster, action, now); ok {
		return after
	}
	progress = progress.of(profile, node.BootID)
	if progress.Round == 0 && (seen.Opened || node.Labels[profiles.Label] == "true") { // what shows it does not last
		action.Do, action.Why, action.Progress = DoNote, Why{Cause: CauseOpenBefore}, progress.Opened()
		return action
	}
	if asked := progress.requested(node.Request); asked.Request != progress.Request && asked.Request != seen.Served {
		action.Do, action.Why, action.Progress = DoNote, Why{CauseRecheck, "the annotation " + RequestAnnotation + " asks for it, so attempts begin anew"}, asked
		return action
	}
	action.Progress, action.Due = progress, deadlineOf(seen, profile)
	switch {
	case progress.Stuck(profile):
		action.State = StateStuck
	case progress.tried() > 0:
		action.State = StateRetrying
	}

	action.Attempt = AttemptOf(node.UID, progress)
	for _, pod := range seen.Pods {
		if seen.Own.Attempt != action.Attempt || pod.NodeUID != node.UID || !pod.Deleted.IsZero() {
			return deletePod(pod, "the worker Pod is not of this attempt", action, now)
		}
	}
	if len(seen.Pods) > 0 {
		var ok bool
		if action, ok = seen.ended(action, profiles, now); ok {
			return action
		}
	}
	if profile.OnTimeout == Release { // the deadline counts whether or not a worker Pod runs
		if !action.Due.After(now) {
			action.Do, action.Why = DoFree, Why{CauseDeadline, profile.Deadline.String()}
			action.Progress = progress.closed(Last{Result: VerdictReleased, Reason: "Deadline", Message: action.Why.String(), Time: now})
			return action
		}
		action.Again = earliest(action.Again, action.Due)
	}
	if len(seen.Pods) > 0 {
		return action
	}
	return seen.attempt(action, profiles, cluster, now)
}

// freed opens a Node that no profile keeps closed.
func (a Action) freed(profiles Profiles, now time.Time) Action {
	a.Do, a.Why = DoFree, Why{Cause: CauseNotSelected}
	switch {
	case a.Profile.Reports():
		a.Why.Cause = CauseReportsOnly
	case profiles.Suspended:
		a.Why.Cause = CauseEmergency
	}
	a.Progress = a.Progress.closed(Last{Result: VerdictNotSelected, Message: a.Why.String(), Time: now})
	return a
}

// ended returns the next step after the worker Pod of this attempt. If its verdict, or the verdict of a control Pod, is still to come, ok is false.
func (seen Observed) ended(action Action, profiles Profiles, now time.Time) (next Action, ok bool) {
	pod, profile, progress := seen.Pods[0], action.Profile, action.Progress
	judged := Judge(pod, profile, now)
	action.Pod, action.Judged, action.Again = pod, judged, judged.Again
	_, notReady := seen.Node.notReady()
	if judged.Verdict == VerdictFailed && !notReady {
		var waits bool
		if action, waits = seen.Control.about(action, now); waits {
			action.State = StateChecking
			return action, false
		}
		judged = action.Judged
	}
	last := Last{Result: judged.Verdict, Check: judged.Check, Reason: judged.Reason, Message: judged.Message, Time: now, Skipped: pod.Skipped}
	switch {
	case judged.Verdict == VerdictPassed:
		action.Do, action.Why, action.Progress = DoOpen, Why{Cause: CauseAllPassed}, progress.closed(last)
		action.Progress.Label, action.Progress.Generation = profiles.Label, profiles.generation
		return action, true
	case judged.Verdict == VerdictRunning:
		action.State, action.Why = StateChecking, judged.Why
		return action, false
	case notReady:
		return deletePod(pod, "the Node is not ready for Pods; this attempt does not count", action, now), true
	}
	action.Do, action.Why, action.Progress = DoRecord, last.Why(), progress.after(last)
	switch {
	case judged.Verdict == VerdictFailed:
		action = seen.removal(action, progress, profiles, now)
	case judged.Verdict == VerdictShared && profile.Removes() && progress.Failed+1 >= profile.MaxAttempts:
		action = action.held(&Brake{Reason: BrakeSharedFailure})
	}
	if action.Do == DoRecord || action.Do == DoRemove {
		return action, true
	}
	action.State, action.Progress = StateChecking, progress
	return action, false
}

// attempt starts the next worker Pod, once the Node is ready for it.
func (seen Observed) attempt(action Action, profiles Profiles, cluster Cluster, now time.Time) Action {
	profile, progress := action.Profile, action.Progress
	if why, not := seen.Node.notReady(); not {
		action.Why = why
		return action
	}
	if why, yes := seen.waits(profile); yes {
		action.Why = why
		if len(profile.Wait.DaemonSets) > 0 { // nothing watches their Pods: there may be a million in the cluster
			action.Again = earliest(action.Again, now.Add(daemonSetInterval))
		}
		return action
	}
	if profile.OnlyWaits() {
		action.Do, action.Why, action.Judged = DoOpen, Why{Cause: CauseAllPassed}, Judged{Verdict: VerdictPassed}
		action.Progress = progress.closed(Last{Result: VerdictPassed, Time: now})
		action.Progress.Generation = profiles.generation
		return action
	}
	if at := latest(progress.Next(profile, now), seen.pauses(profile, progress)); at.After(now) {
		action.Why, action.Again = Why{CauseDue, strconv.Itoa(progress.Attempts + 1)}, earliest(action.Again, at)
		if progress.Tried() {
			action.Why = progress.Last.Why()
		}
		return action
	}
	action.Do, action.Why = DoStart, Why{CauseDue, strconv.Itoa(progress.Attempts + 1)}
	action.First = progress.tried() == 0 && seen.Started.IsZero() && seen.Refused == ""
	action.Skip = skipped(seen, profiles, profile, cluster)
	return action
}

// opened returns what is left to do about a Node without the taint.
func opened(node *Node, profile CompiledProfile, progress Progress, now time.Time) Action {
	action := Action{Do: DoNothing, State: StateOpen, Profile: profile, Progress: progress, Why: Why{Cause: CauseNotVerified}}
	switch {
	case progress.Reports:
		action.Do, action.Progress = DoForget, progress.forgotten(now)
	case progress.tried() > 0 && hasTaint(node, progress.Taint):
		action.Why = Why{CauseKeyChanged, progress.Taint} // else it would have been held
	case progress.tried() > 0:
		action.Do, action.Why = DoClose, Why{Cause: CauseTaintRemoved}
		action.Progress = progress.closed(Last{Result: VerdictRemoved, Message: action.Why.String(), Time: now})
	case progress.Last != nil:
		action.Why = progress.Last.Why()
	}
	return action
}

// hasTaint reports whether a Node has a taint of this key.
func hasTaint(node *Node, key string) bool {
	return slices.ContainsFunc(node.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

// deleteAll deletes worker Pods one after another, then continues with the action.
func deleteAll(pods []Pod, reason string, then Action, now time.Time) Action {
	for _, pod := range pods {
		if action := deletePod(pod, reason, then, now); action.Do == DoDelete {
			return action
		}
	}
	if len(pods) > 0 {
		return deletePod(pods[0], reason, then, now)
	}
	return then
}

// deletePod deletes a worker Pod and waits until it is deleted. If the kubelet does not answer, it forces the deletion.
func deletePod(pod Pod, reason string, action Action, now time.Time) Action {
	action.Pod, action.Why, action.Do, action.Again = pod, Why{CauseOldWorker, reason}, DoDelete, time.Time{}
	if until := pod.Deleted.Add(forceAfter); !pod.Deleted.IsZero() && now.Before(until) {
		action.Do, action.Again = DoWait, until
	} else if !pod.Deleted.IsZero() {
		action.Force = true
	}
	return action
}

// deadlineOf returns when a Node is released. It counts from the creation of the Node, which no kubelet can choose. If this process first observes the
// taint after that deadline, it counts from the observation. Then the taint was added again, or the process was down.
func deadlineOf(seen Observed, profile CompiledProfile) time.Time {
	deadline := seen.Node.Created.Add(profile.Deadline)
	if seen.Held.After(deadline) {
		return seen.Held.Add(profile.Deadline)
	}
	return deadline
}

// skipped returns the checks that are skipped at a cold start. The Service that they need has no ready endpoint, and gets none before a Node like this one
// is open.
func skipped(seen Observed, profiles Profiles, profile CompiledProfile, cluster Cluster) (names []string) {
	if !seen.Cold {
		return nil
	}
	opened := profiles.Opened(seen.Node.Taints)
	for _, check := range profile.Checks {
		if slices.ContainsFunc(check.Needs().services(cluster.DNS), func(service string) bool {
			backing, ok := seen.Services[service]
			return ok && backing.waitsFor(opened)
		}) {
			names = append(names, check.Name)
		}
	}
	return names
}

// projection returns what the condition is to say, and whether it says something else now. A Node that an attempt has failed on shows that attempt, unless
// it waits for something else for long.
func (seen Observed) projection(action Action, lasts bool) (show Projection, differs bool) {
	node := seen.Node
	if node == nil || node.Deleting {
		return Projection{}, false
	}
	why, held := action.Why, action.State != StateOpen
	tried := held && action.Progress.Tried()
	switch {
	case tried && !lasts, why.Cause == CauseRecheck && action.Progress.Last != nil:
		why = action.Progress.Last.Why()
	case held && !lasts:
		why = Why{CauseDue, "1"}
	}
	show, differs = why.Shown(node, tried)
	if node.Verified.Status == "" && show.Status == corev1.ConditionUnknown && !lasts {
		return Projection{}, false // no condition says the same, without a write
	}
	return show, differs
}

// Acts reports whether the step is one that changes more than the condition.
func (a Action) Acts() bool { return !slices.Contains([]Do{DoNothing, DoWait, DoShow}, a.Do) }

// next returns the action with another step.
func (a Action) next(do Do, why Why, again time.Time) Action {
	a.Do, a.Why, a.Again = do, why, again
	return a
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
