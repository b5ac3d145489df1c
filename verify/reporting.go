package verify

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// reported returns the next step for an open Node of a profile that only reports. The Node is checked when that is due, and stays open.
func (seen Observed) reported(profile CompiledProfile, progress Progress, profiles Profiles, cluster Cluster, now time.Time) Action {
	node := seen.Node
	action := Action{Operation: DoWait, State: StateOpen, Profile: profile, Progress: progress.forProfile(profile, node.BootID), reports: true}
	action.asked = progress.Last == nil && progress.Hash == profile.Hash && progress.BootID == node.BootID
	if action.Progress.tried() > 0 {
		action.State = StateFailing
	}
	if prev := ParseProgress(node.Annotation); prev.tried() > 0 && hasTaint(node, prev.Taint) { // no profile has this key any more
		return action.next(DoWait, Diagnosis{CauseKeyChanged, prev.Taint}, time.Time{})
	}
	if key := Incomplete(node.Taints, cluster.Gate); key != "" { // its labels may change, and so its profile
		return action.due(Diagnosis{CauseOtherTaint, key})
	}
	stranger, deadline, ended := seen.strangers(profile, now)
	if ended {
		return deletePod(stranger, "this process did not create the worker Pod", action, now)
	}
	seen.Pods = seen.workers()
	action = seen.check(action, profiles, cluster, now)
	if action.Operation == DoWait && !deadline.IsZero() {
		action.Requeue = earliest(action.Requeue, deadline)
	}
	return action
}

// check returns the next step about the checks of an open Node. Pods are those that this process created.
func (seen Observed) check(action Action, profiles Profiles, cluster Cluster, now time.Time) Action {
	node, profile, progress, state := seen.Node, action.Profile, action.Progress, action.State
	if node.Request != "" && node.Request != progress.Request && node.Request != seen.Served {
		action.Operation, action.Diagnosis = DoNote, Diagnosis{CauseRecheck, "the annotation " + RequestAnnotation + " asks for it"}
		action.Progress = progress.Restart().requested(node.Request)
		return action
	}
	action.Attempt = AttemptOf(node.UID, progress)
	for _, pod := range seen.Pods {
		if seen.Worker.Attempt != action.Attempt || pod.NodeUID != node.UID || !pod.Deleted.IsZero() {
			return deletePod(pod, "the worker Pod is not of this attempt", action, now)
		}
	}
	if len(seen.Pods) > 0 {
		action, ok := seen.ended(action, profiles, now)
		action.State = state
		switch {
		case action.Operation == DoOpen:
			action.Operation, action.Progress = DoReport, progress.passed(*action.Progress.Last)
			action.Progress.Generation = profiles.generation
		case !ok:
			return action.due(action.Diagnosis)
		}
		return action
	}
	if due := latest(progress.due(profile, now), seen.pauses(profile, progress)); due.After(now) {
		action.Requeue = due
		return action.due(Diagnosis{Cause: CauseDue})
	}
	action = seen.attempt(action, profiles, cluster, now)
	if action.Operation == DoWait && !action.Requeue.IsZero() {
		action.Requeue = now.Add(profile.MaxBackoff) // the Node takes workloads: nothing waits for this
	}
	return action.due(action.Diagnosis)
}

// due returns the action with the reason that is shown. That is how the last attempt ended, or what the first one waits for.
func (a Action) due(diagnosis Diagnosis) Action {
	a.Diagnosis = Diagnosis{CauseCheckDue, diagnosis.String()}
	if last := a.Progress.Last; last.ofChecks() {
		a.Diagnosis = last.Diagnosis()
	}
	return a
}

// ofChecks reports whether something came of an attempt.
func (l *Last) ofChecks() bool {
	return l != nil && slices.Contains([]Verdict{VerdictPassed, VerdictFailed, VerdictShared, VerdictInconclusive}, l.Result)
}

// due returns when the Node of a profile that only reports is to be checked next. A time that lies further ahead than a pause is one that only a kubelet
// writes. It counts as none.
func (p Progress) due(profile CompiledProfile, now time.Time) time.Time {
	if !p.Last.ofChecks() {
		return now
	}
	pause := profile.Interval
	if p.tried() > 0 {
		pause = p.Pause(profile)
	}
	if p.Last.Time.After(now.Add(pause)) {
		return now
	}
	return p.Last.Time.Add(pause)
}

// passed returns the progress once the checks of an open Node have passed. The round ends, so that its worker Pods count no more.
func (p Progress) passed(last Last) Progress {
	p = p.untried()
	p.Round, p.Last, p.Asked, p.Generation = p.Round+1, &last, time.Time{}, 0
	return p
}

// Restart returns the progress of an open Node that is to be checked at once. The condition stays until the check has ended.
func (p Progress) Restart() Progress {
	p.Round, p.Last = p.Round+1, nil
	return p
}

// ReportedBefore is the message of a Node that a profile which only reports selects no more.
const ReportedBefore = "the profile that reported selects the Node no more"

// forgotten returns the progress of a Node that a profile which only reports selects no more. What its checks said counts no more.
func (p Progress) forgotten(now time.Time) Progress {
	p = p.passed(Last{Result: VerdictNotSelected, Message: ReportedBefore, Time: now})
	p.Reports = false
	return p
}

// confirms decides whether an attempt failed for a fault of this Node. Other tools may delete a Node because of that. So it must fail twice in a row.
// Other Nodes must pass what failed, as before a removal; see [Control.clears]. A fault that all shared and that has just ended is none of this Node.
func (c Control) confirms(record Action, now time.Time) Action {
	if record.Progress.Failed < 2 {
		record.Progress.Last.Unconfirmed = true
		return record
	}
	cleared, held := c.clears(record, now)
	if held != nil {
		record.Progress.Last.Unconfirmed = true
		return record
	}
	return cleared
}

// shown returns the action, or [DoShow] if the condition must be written. That goes before the next check, which can wait for long. The condition shows how the last
// attempt ended. A Node that waits for the next one keeps it as it is. Only False needs an attempt with these checks, on this boot.
func (seen Observed) shown(action Action, now time.Time) Action {
	node := seen.Node
	progress := ParseProgress(node.Annotation)
	last := progress.forProfile(action.Profile, node.BootID).Last
	switch {
	case action.Acts() && action.Operation != DoStart:
		return action
	case !progress.Reports || !last.ofChecks():
		if node.Verified.Status == corev1.ConditionFalse { // of another profile, other checks, or another boot
			diagnosis := Diagnosis{Cause: CauseNotVerified}
			action.Operation, action.Show = DoShow, Projection{Status: corev1.ConditionUnknown, Reason: string(diagnosis.Cause), Message: diagnosis.Sentence(node.Name)}
		}
		return action
	}
	diagnosis := last.Diagnosis()
	show := Projection{Status: last.status(node.Verified.Status), Reason: string(diagnosis.Cause), Message: diagnosis.Sentence(node.Name)}
	later := !last.Time.After(now) && node.ShownAt.Before(last.Time.Truncate(time.Second))
	if show != node.Verified || later {
		action.Operation, action.Show = DoShow, show
	}
	return action
}

// status returns that of the condition after an attempt under a profile that only reports. Only a fault of this Node makes it False, and ends True. So no
// other tool acts on all Nodes at once for a fault that they share.
func (l *Last) status(prev corev1.ConditionStatus) corev1.ConditionStatus {
	switch {
	case l.Result == VerdictFailed && !l.Unconfirmed:
		return corev1.ConditionFalse
	case l.Result == VerdictPassed, prev == corev1.ConditionTrue:
		return corev1.ConditionTrue
	}
	return corev1.ConditionUnknown
}

// workers returns the worker Pods that this process created.
func (seen Observed) workers() (workers []Pod) {
	return slices.DeleteFunc(slices.Clone(seen.Pods), func(pod Pod) bool { return pod.UID != seen.Worker.UID })
}

// strangers looks at worker Pods that this process did not create. If one of them is over, it is returned. Another process may lead, too, and wait for
// the others. Then until is when the first of them has taken too long.
func (seen Observed) strangers(profile CompiledProfile, now time.Time) (pod Pod, deadline time.Time, ended bool) {
	for _, pod := range seen.Pods {
		if pod.UID == seen.Worker.UID {
			continue
		}
		ends := pod.Created.Add(profile.longest())
		if pod.Ended() || !pod.Deleted.IsZero() || !now.Before(ends) {
			return pod, time.Time{}, true
		}
		deadline = earliest(deadline, ends)
	}
	return Pod{}, deadline, false
}

// Look is when a Node is to be looked at again that is open, and whose profile only reports.
type Look struct {
	Time  time.Time // zero: when the Node changes
	Waits bool      // it can only be to start a worker Pod, so the Node waits in the line Turn first
	Turn  Turn
	Fails bool // its last attempt did not pass
}

// LookAt returns when an open Node is to be looked at. DaemonSets are taken to be ready: they are looked up when the Node's turn comes.
func (p Profiles) LookAt(node *Node, gate string, now time.Time) Look {
	profile, _ := p.Match(node.Labels)
	seen := Observed{Node: node, DaemonSets: map[string]bool{}}
	for _, name := range profile.Wait.DaemonSets {
		seen.DaemonSets[name] = true
	}
	action := Plan(seen, p, Cluster{Gate: gate}, now)
	look := Look{Time: now, Turn: action.Turn(), Fails: action.State == StateFailing}
	switch action.Operation {
	case DoNothing, DoWait:
		look.Time, look.Waits = action.Requeue, true
	case DoStart:
		look.Waits = true
	}
	return look
}
