package verify

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Operation is what is to be done next about a Node.
type Operation string

// What can be done.
const (
	DoNothing Operation = "nothing" // until something is observed
	DoWait    Operation = "wait"    // until something is observed, or until [Action.Requeue]
	DoStart   Operation = "start"   // create a worker Pod for [Action.Attempt]
	DoDelete  Operation = "delete"  // delete [Action.Pod]
	DoOpen    Operation = "open"    // one PATCH: remove the taints, add the label, write the annotation
	DoControl Operation = "control" // start the control Pod of the profile, and wait for it
	DoRecord  Operation = "record"  // keep the report of an attempt that did not pass, write the annotation
	DoRemove  Operation = "remove"  // remove the Node, unless [Action.Decide] says otherwise; then as DoRecord
	DoFree    Operation = "free"    // one PATCH: remove the taints, write the annotation; the Node is not verified
	DoClose   Operation = "close"   // write the annotation: another client removed the taint
	DoHold    Operation = "hold"    // one PATCH: add the taint [Action.Hold], since the Node may be rebooting
	DoUnhold  Operation = "unhold"  // one PATCH: remove what DoHold added, write the annotation; nothing else changes
	DoNote    Operation = "note"    // write the annotation: the Node was open before its taint was added, so it is never removed; or a request
	DoRecheck Operation = "recheck" // one PATCH: add the taint [Action.Hold], remove the label, write the annotation; the Node is checked again
	DoShow    Operation = "show"    // write the condition
	DoReport  Operation = "report"  // write the annotation: the checks passed on a Node whose profile only reports
	DoForget  Operation = "forget"  // write the annotation: the profile that only reported selects the Node no more
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
	Operation Operation
	Diagnosis Diagnosis
	State     State
	Requeue   time.Time // when to look again though nothing was observed; zero: not
	Due       time.Time // when the deadline of the profile is; zero for a Node without the taint
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

	reports   bool   // of an open Node whose profile only reports
	asked     bool   // it is to be checked now, on request
	prevBrake *Brake // DoRemove: what held the removal after the attempt before
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
	if seen.Refused != "" && action.Diagnosis.Cause == CauseAsksKubelet {
		action.Diagnosis = Diagnosis{CauseRefused, seen.Refused}
	}
	if action.Operation == DoNothing || action.Operation == DoWait {
		lasts, due := seen.lasts(action.Diagnosis, now)
		show, differs := seen.projection(action, lasts)
		if differs && show.Reason == seen.Node.Verified.Reason && show.Status == seen.Node.Verified.Status {
			differs, due = !now.Before(seen.Shown.Add(lasting)), seen.Shown.Add(lasting) // a detail that changes all the time is not a write each time
		}
		if differs { // it never delays anything else
			action.Operation, action.Show = DoShow, show
		} else if due.After(now) {
			action.Requeue = earliest(action.Requeue, due)
		}
	}
	return action
}

// lasting is how long a Node must have waited for the same before its condition and an Event say so. Most waits end sooner, without a write.
const lasting = time.Minute

// lasts reports whether a Node has waited for the same long enough to say so. If not, at is when that will be; zero: such a wait is not shown.
func (seen Observed) lasts(diagnosis Diagnosis, now time.Time) (yes bool, due time.Time) {
	row, _ := diagnosis.Cause.Explain()
	if !row.Lasts || diagnosis.Cause == CauseRefused {
		return row.Lasts, time.Time{}
	}
	start := now
	if seen.Waits.Cause == diagnosis.Cause {
		start = seen.Waits.Start
	}
	due = start.Add(lasting)
	return !now.Before(due), due
}

func next(seen Observed, profiles Profiles, cluster Cluster, now time.Time) Action {
	node := seen.Node
	if node == nil || node.Deleting {
		return deleteAll(seen.Pods, "the Node is deleted", Action{Operation: DoNothing, Diagnosis: Diagnosis{Cause: CauseNotVerified}}, now)
	}
	profile, selected := profiles.Match(node.Labels)
	progress := ParseProgress(node.Annotation)
	held := profiles.ClosingTaints(node.Taints)
	if len(held) == 0 && profile.ReportsOnly() {
		return seen.reported(profile, progress, profiles, cluster, now)
	}
	if len(held) == 0 {
		action := opened(node, profile, progress, now)
		if action.Operation == DoNothing {
			action = watchReboot(node, cluster, action, now)
		}
		if action.Operation == DoNothing {
			action = recheck(seen, profiles, cluster, action, now)
		}
		return deleteAll(seen.Pods, "the Node has no taint of verification", action, now)
	}

	action := Action{Operation: DoWait, State: StateWaiting, Profile: profile, Progress: progress}
	if profiles.Suspended { // first of all: its worker Pods may be on a machine that does not answer
		freed := action.freed(profiles, now)
		if repeats := progress.resumes(now).After(now) && progress.Last.Message == freed.Progress.Last.Message; !repeats {
			return freed
		} // else a client adds the taint again and again
	}
	// The taint is there. Labels decide about the profile, so others complete them first.
	if key := Incomplete(node.Taints, cluster.Gate); key != "" {
		return action.next(DoWait, Diagnosis{CauseOtherTaint, key}, time.Time{})
	}
	if !selected && len(seen.Pods) > 0 {
		return deleteAll(seen.Pods, "no profile selects the Node", action, now)
	}
	stranger, deadline, ended := seen.strangers(profile, now)
	if ended {
		return deletePod(stranger, "this process did not create the worker Pod", action, now)
	}
	seen.Pods = seen.workers()
	action = seen.verify(action, held, profiles, cluster, now)
	if action.Operation == DoWait && !deadline.IsZero() {
		action.Requeue = earliest(action.Requeue, deadline)
	}
	return action
}

// verify returns the next step for a Node that has the taint, and is complete. Pods are those that this process created.
func (seen Observed) verify(action Action, held []corev1.Taint, profiles Profiles, cluster Cluster, now time.Time) Action {
	node, profile, progress := seen.Node, action.Profile, action.Progress
	if due := progress.resumes(now); due.After(now) && len(seen.Pods) == 0 {
		return action.next(DoWait, Diagnosis{CauseTaintReturns, strconv.Itoa(progress.Returns)}, due)
	}
	if profile.Name == "" || profile.ReportsOnly() {
		return action.freed(profiles, now)
	}
	if updated, ok := afterHold(node, held, cluster, action, now); ok {
		return updated
	}
	progress = progress.forProfile(profile, node.BootID)
	if progress.Round == 0 && (seen.Opened || node.Labels[profiles.Label] == "true") { // what shows it does not last
		action.Operation, action.Diagnosis, action.Progress = DoNote, Diagnosis{Cause: CauseOpenBefore}, progress.AfterOpen()
		return action
	}
	if asked := progress.requested(node.Request); asked.Request != progress.Request && asked.Request != seen.Served {
		action.Operation, action.Diagnosis, action.Progress = DoNote, Diagnosis{CauseRecheck, "the annotation " + RequestAnnotation + " asks for it, so attempts begin anew"}, asked
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
		if seen.Worker.Attempt != action.Attempt || pod.NodeUID != node.UID || !pod.Deleted.IsZero() {
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
			action.Operation, action.Diagnosis = DoFree, Diagnosis{CauseDeadline, profile.Deadline.String()}
			action.Progress = progress.closed(Last{Result: VerdictReleased, Reason: "Deadline", Message: action.Diagnosis.String(), Time: now})
			return action
		}
		action.Requeue = earliest(action.Requeue, action.Due)
	}
	if len(seen.Pods) > 0 {
		return action
	}
	return seen.attempt(action, profiles, cluster, now)
}

// freed opens a Node that no profile keeps closed.
func (a Action) freed(profiles Profiles, now time.Time) Action {
	a.Operation, a.Diagnosis = DoFree, Diagnosis{Cause: CauseNotSelected}
	switch {
	case a.Profile.ReportsOnly():
		a.Diagnosis.Cause = CauseReportsOnly
	case profiles.Suspended:
		a.Diagnosis.Cause = CauseEmergency
	}
	a.Progress = a.Progress.closed(Last{Result: VerdictNotSelected, Message: a.Diagnosis.String(), Time: now})
	return a
}

// ended returns the next step after the worker Pod of this attempt. If its verdict, or the verdict of a control Pod, is still to come, ok is false.
func (seen Observed) ended(action Action, profiles Profiles, now time.Time) (next Action, ok bool) {
	pod, profile, progress := seen.Pods[0], action.Profile, action.Progress
	judged := Judge(pod, profile, now)
	action.Pod, action.Judged, action.Requeue = pod, judged, judged.Deadline
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
		action.Operation, action.Diagnosis, action.Progress = DoOpen, Diagnosis{Cause: CauseAllPassed}, progress.closed(last)
		action.Progress.Label, action.Progress.Generation = profiles.Label, profiles.generation
		return action, true
	case judged.Verdict == VerdictRunning:
		action.State, action.Diagnosis = StateChecking, judged.Diagnosis
		return action, false
	case notReady:
		return deletePod(pod, "the Node is not ready for Pods; this attempt does not count", action, now), true
	}
	action.Operation, action.Diagnosis, action.Progress = DoRecord, last.Diagnosis(), progress.advance(last)
	switch {
	case judged.Verdict == VerdictFailed:
		action = seen.removal(action, progress, profiles, now)
	case judged.Verdict == VerdictShared && profile.Removes() && progress.Failed+1 >= profile.MaxAttempts:
		action = action.blocked(&Brake{Reason: BrakeSharedFailure})
	}
	if action.Operation == DoRecord || action.Operation == DoRemove {
		return action, true
	}
	action.State, action.Progress = StateChecking, progress
	return action, false
}

// attempt starts the next worker Pod, once the Node is ready for it.
func (seen Observed) attempt(action Action, profiles Profiles, cluster Cluster, now time.Time) Action {
	profile, progress := action.Profile, action.Progress
	if diagnosis, ok := seen.Node.notReady(); ok {
		action.Diagnosis = diagnosis
		return action
	}
	if diagnosis, yes := seen.waits(profile); yes {
		action.Diagnosis = diagnosis
		if len(profile.Wait.DaemonSets) > 0 { // nothing watches their Pods: there may be a million in the cluster
			action.Requeue = earliest(action.Requeue, now.Add(daemonSetInterval))
		}
		return action
	}
	if profile.OnlyWaits() {
		action.Operation, action.Diagnosis, action.Judged = DoOpen, Diagnosis{Cause: CauseAllPassed}, Judged{Verdict: VerdictPassed}
		action.Progress = progress.closed(Last{Result: VerdictPassed, Time: now})
		action.Progress.Generation = profiles.generation
		return action
	}
	if due := latest(progress.Next(profile, now), seen.pauses(profile, progress)); due.After(now) {
		action.Diagnosis, action.Requeue = Diagnosis{CauseDue, strconv.Itoa(progress.Attempts + 1)}, earliest(action.Requeue, due)
		if progress.Tried() {
			action.Diagnosis = progress.Last.Diagnosis()
		}
		return action
	}
	action.Operation, action.Diagnosis = DoStart, Diagnosis{CauseDue, strconv.Itoa(progress.Attempts + 1)}
	action.First = progress.tried() == 0 && seen.Started.IsZero() && seen.Refused == ""
	action.Skip = skipped(seen, profiles, profile, cluster)
	return action
}

// opened returns what is left to do about a Node without the taint.
func opened(node *Node, profile CompiledProfile, progress Progress, now time.Time) Action {
	action := Action{Operation: DoNothing, State: StateOpen, Profile: profile, Progress: progress, Diagnosis: Diagnosis{Cause: CauseNotVerified}}
	switch {
	case progress.Reports:
		action.Operation, action.Progress = DoForget, progress.forgotten(now)
	case progress.tried() > 0 && hasTaint(node, progress.Taint):
		action.Diagnosis = Diagnosis{CauseKeyChanged, progress.Taint} // else it would have been held
	case progress.tried() > 0:
		action.Operation, action.Diagnosis = DoClose, Diagnosis{Cause: CauseTaintRemoved}
		action.Progress = progress.closed(Last{Result: VerdictRemoved, Message: action.Diagnosis.String(), Time: now})
	case progress.Last != nil:
		action.Diagnosis = progress.Last.Diagnosis()
	}
	return action
}

// hasTaint reports whether a Node has a taint of this key.
func hasTaint(node *Node, key string) bool {
	return slices.ContainsFunc(node.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

// deleteAll deletes worker Pods one after another, then continues with the action.
func deleteAll(pods []Pod, reason string, next Action, now time.Time) Action {
	for _, pod := range pods {
		if action := deletePod(pod, reason, next, now); action.Operation == DoDelete {
			return action
		}
	}
	if len(pods) > 0 {
		return deletePod(pods[0], reason, next, now)
	}
	return next
}

// deletePod deletes a worker Pod and waits until it is deleted. If the kubelet does not answer, it forces the deletion.
func deletePod(pod Pod, reason string, action Action, now time.Time) Action {
	action.Pod, action.Diagnosis, action.Operation, action.Requeue = pod, Diagnosis{CauseOldWorker, reason}, DoDelete, time.Time{}
	if deadline := pod.Deleted.Add(forceAfter); !pod.Deleted.IsZero() && now.Before(deadline) {
		action.Operation, action.Requeue = DoWait, deadline
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
	diagnosis, closed := action.Diagnosis, action.State != StateOpen
	tried := closed && action.Progress.Tried()
	switch {
	case tried && !lasts, diagnosis.Cause == CauseRecheck && action.Progress.Last != nil:
		diagnosis = action.Progress.Last.Diagnosis()
	case closed && !lasts:
		diagnosis = Diagnosis{CauseDue, "1"}
	}
	show, differs = diagnosis.Shown(node, tried)
	if node.Verified.Status == "" && show.Status == corev1.ConditionUnknown && !lasts {
		return Projection{}, false // no condition says the same, without a write
	}
	return show, differs
}

// Acts reports whether the step is one that changes more than the condition.
func (a Action) Acts() bool {
	return !slices.Contains([]Operation{DoNothing, DoWait, DoShow}, a.Operation)
}

// next returns the action with another step.
func (a Action) next(operation Operation, diagnosis Diagnosis, requeue time.Time) Action {
	a.Operation, a.Diagnosis, a.Requeue = operation, diagnosis, requeue
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
