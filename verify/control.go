package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ControlPrefix is how the names of control Pods begin. Such a Pod asks the network checks of a profile on a verified Node. It distinguishes a fault
// of one Node from a fault that all Nodes share.
const ControlPrefix = "control-"

// controlLasts is how long the result of a control Pod counts. It is also the shortest pause of a Node whose failure is shared.
const controlLasts = time.Minute

// controlKept is how long a control Pod stays once its result counts no more.
const controlKept = time.Minute

// ReasonShared is the reason of an attempt that failed as a verified Node does.
const ReasonShared = "SharedFailure"

// controlsWanted is how many verified Nodes are asked, where there are so many. A kubelet decides what the Pods on its Node report. So one Node
// alone cannot have a failure that all Nodes share count against another one.
const controlsWanted = 2

// Control is what is known of the control of a profile.
type Control struct {
	Able int          // how many Nodes of the profile can run a control Pod
	Pods []ControlPod // that this process created for these checks, and that are not being deleted; each on another Node
	// Passed is when other Nodes of the profile last passed the checks that it has now: so many as [Control.Witnesses].
	Passed time.Time
}

// Witnesses returns how many other Nodes must pass what a Node fails, where so many can be asked. The kubelet of one alone can lie.
func (c Control) Witnesses() int { return max(1, min(controlsWanted, c.Able)) }

// ControlPod is a control Pod and its Node.
type ControlPod struct {
	Pod
	Node string
}

// Network returns the profile with the checks that another Node can answer as well. A container asks about the machine, and kubelet about the kubelet.
func (p CompiledProfile) Network() CompiledProfile {
	p.Checks = slices.DeleteFunc(slices.Clone(p.Checks), func(check Check) bool { return !check.ByWorker() })
	return p
}

// isNetwork reports whether another Node can answer the check of this name as well.
func (p CompiledProfile) isNetwork(name string) bool {
	return slices.ContainsFunc(p.Checks, func(check Check) bool { return check.Name == name && check.ByWorker() })
}

// Controls reports whether a control Pod can run on a Node. It passed its checks, takes workloads, and is Ready. The annotation shows that it
// passed, which no kubelet may write where the guard policies are in force. The label shows nothing: a kubelet may set it.
func (p Profiles) Controls(node *Node) bool {
	last := ParseProgress(node.Annotation).Last
	_, notReady := node.notReady()
	return !node.Deleting && len(p.ClosingTaints(node.Taints)) == 0 && last != nil && last.Result == VerdictPassed && !notReady
}

// ControlKey names the profile and what it asks.
func (p CompiledProfile) ControlKey() string { return p.Name + "/" + p.Hash }

// Due reports whether another control Pod is to be started: fewer are asked than are wanted.
func (c Control) Due(profile CompiledProfile, start, now time.Time) bool {
	return len(c.Asked(profile, start, now)) < min(controlsWanted, c.Able)
}

// Asked returns the control Pods that run, and those whose results count and that were not created before since. One that runs takes a place also if it was
// created before. So there are never more of them at once than are wanted.
func (c Control) Asked(profile CompiledProfile, start, now time.Time) []ControlPod {
	return slices.DeleteFunc(c.Current(profile, now), func(pod ControlPod) bool {
		return pod.Created.Before(start) && c.judged(pod, profile, now).Verdict != VerdictRunning
	})
}

// Current returns the control Pods that run, or whose results count.
func (c Control) Current(profile CompiledProfile, now time.Time) (current []ControlPod) {
	for _, pod := range c.Pods {
		if c.judged(pod, profile, now).Verdict == VerdictRunning || now.Before(controlCounts(pod.Pod, profile, now)) {
			current = append(current, pod)
		}
	}
	return current
}

// judged returns what came of a control Pod.
func (c Control) judged(pod ControlPod, profile CompiledProfile, now time.Time) Judged {
	return Judge(pod.Pod, profile.Network(), now)
}

// ControlEnds returns when a control Pod of this profile is to be deleted.
func ControlEnds(pod Pod, profile CompiledProfile, now time.Time) time.Time {
	return controlCounts(pod, profile, now).Add(controlKept)
}

// controlCounts is until when the result of a control Pod counts. Its kubelet shows when it ended, within bounds.
func controlCounts(pod Pod, profile CompiledProfile, now time.Time) time.Time {
	ended := pod.Created.Add(profile.longest())
	for _, container := range pod.Containers {
		if container.Name == Worker && container.Ended && !container.Finished.IsZero() {
			ended = earliest(latest(container.Finished, pod.Created), ended)
		}
	}
	return earliest(ended, now).Add(controlLasts)
}

// longest returns how long a Pod of this profile may take: then it is judged as it is.
func (p CompiledProfile) longest() time.Duration { return p.StartTimeout + p.Timeout + grace }

// about returns what the control means for an attempt that failed. While its verdict is to come, waits is true. If a verified Node fails the same check,
// the verdict becomes [VerdictShared]. Otherwise the failure counts: no other Node can answer the check, or none is verified. It also counts if the
// controls passed, gave no result, or did not finish in time.
func (c Control) about(action Action, now time.Time) (next Action, waits bool) {
	failed := failedChecks(action.Judged)
	if slices.ContainsFunc(failed, func(name string) bool { return !action.Profile.isNetwork(name) }) {
		return action, false
	}
	var requeue time.Time // when a control Pod that runs will have taken too long
	for _, pod := range c.Current(action.Profile, now) {
		judged := c.judged(pod, action.Profile, now)
		if judged.Verdict == VerdictRunning {
			requeue = earliest(requeue, judged.Deadline)
			continue
		}
		shared := slices.DeleteFunc(failedChecks(judged), func(name string) bool { return !slices.Contains(failed, name) })
		if judged.Verdict == VerdictFailed && len(shared) > 0 {
			action.Judged, action.ControlOn = action.Judged.shared(shared[0], pod.Node), pod.Node
			return action, false
		}
	}
	switch deadline := action.controlledUntil(); {
	case !now.Before(deadline):
		return action, false
	case c.Due(action.Profile, time.Time{}, now):
		return action.control(time.Time{}, now), true
	case !requeue.IsZero():
		return action.next(DoWait, Diagnosis{Cause: CauseAsksVerified}, earliest(requeue, deadline)), true
	}
	return action, false
}

// controlledUntil returns how long an attempt waits for its control: a kubelet may delete the Pods on its Node.
func (a Action) controlledUntil() time.Time { return a.Pod.Created.Add(a.Profile.decided()) }

// decided returns how long an attempt takes at most. Its own Pod may take the longest time. So may control Pods that run already when it ends, and then those
// that answer it.
func (p CompiledProfile) decided() time.Duration { return 3 * p.longest() }

// control returns the action that has control Pods started, of which none counts that was created before since.
func (a Action) control(start, now time.Time) Action {
	a.ControlSince = start
	return a.next(DoControl, Diagnosis{Cause: CauseAsksVerified}, now.Add(controlRetry))
}

// controlRetry is when to look again for a control Pod that was to be started.
const controlRetry = time.Second

// failedChecks returns the required checks that failed.
func failedChecks(judged Judged) (names []string) {
	for _, result := range judged.Results {
		if result.Required && result.Outcome == Failed {
			names = append(names, result.Check)
		}
	}
	return names
}

// shared returns what came of an attempt that failed as a verified Node does.
func (j Judged) shared(check, node string) Judged {
	message := ""
	for _, result := range j.Results {
		if result.Check == check {
			message = result.Message
		}
	}
	j.Verdict, j.Check, j.Reason = VerdictShared, check, ReasonShared
	j.Message = strings.TrimSuffix(fmt.Sprintf("verified Node %s fails it, too: %s", node, message), ": ")
	return j
}
