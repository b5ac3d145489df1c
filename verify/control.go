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

// Control is what is known of the control of a profile.
type Control struct {
	Possible bool   // there is a verified Node of the profile
	Pod      *Pod   // the newest control Pod of these checks that is not being deleted; nil: there is none
	On       string // the Node of that Pod
	// Passed is when a verified Node of the profile last passed the checks that it has now.
	Passed time.Time
}

// Network is the profile with the checks that another Node can answer as well. A container asks about the machine, and kubelet about the kubelet.
func (p CompiledProfile) Network() CompiledProfile {
	p.Checks = slices.DeleteFunc(slices.Clone(p.Checks), func(check Check) bool { return !check.ByWorker() })
	return p
}

// isNetwork reports whether another Node can answer the check of this name as well.
func (p CompiledProfile) isNetwork(name string) bool {
	return slices.ContainsFunc(p.Checks, func(check Check) bool { return check.Name == name && check.ByWorker() })
}

// Controls reports whether a control Pod can run on a Node: it was verified, takes workloads, and is Ready. A Node whose kubelet fakes that can keep attempts
// of other Nodes from being counted, and nothing else.
func (p Profiles) Controls(node *Node) bool {
	return !node.Deleting && len(p.HeldBy(node.Taints)) == 0 && node.Labels[p.Label] == "true" && node.notReady() == ""
}

// ControlKey names the profile and what it asks. A control Pod carries it where no kubelet can change it.
func (p CompiledProfile) ControlKey() string { return p.Name + "/" + p.Hash }

// ControlName is the name of the control Pod that follows another one, by its uid. Two controllers that start the same one collide.
func ControlName(key, before string) string {
	return ControlPrefix + hash(16, "%q %q", key, before)
}

// ControlDue reports whether a control Pod is to be started: none runs, and none has ended recently.
func ControlDue(newest *Pod, profile CompiledProfile, now time.Time) bool {
	return newest == nil || Judge(*newest, profile.Network(), now).Verdict != VerdictRunning && !now.Before(controlCounts(*newest, profile, now))
}

// ControlEnds is when a control Pod of this profile is to be deleted.
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

// longest is how long a Pod of this profile may take: then it is judged as it is.
func (p CompiledProfile) longest() time.Duration { return p.StartTimeout + p.Timeout + grace }

// about is what the control means for an attempt that failed. While its verdict is to come, waits is true. If a verified Node fails the same check,
// the verdict becomes [VerdictShared]. Otherwise the failure counts: no other Node can answer the check, or none is verified. It also counts if the
// control passed, gave no result, or did not finish in time.
func (c Control) about(action Action, now time.Time) (next Action, waits bool) {
	failed := failedChecks(action.Judged)
	if slices.ContainsFunc(failed, func(name string) bool { return !action.Profile.isNetwork(name) }) {
		return action, false
	}
	judged, runs := c.judged(action.Profile, now)
	until := action.controlledUntil()
	switch {
	case runs && now.Before(until):
		return action.next(DoWait, "a verified Node is asked the same", earliest(judged.Again, until)), true
	case !ControlDue(c.Pod, action.Profile, now):
		shared := slices.DeleteFunc(failedChecks(judged), func(name string) bool { return !slices.Contains(failed, name) })
		if judged.Verdict != VerdictFailed || len(shared) == 0 {
			return action, false
		}
		action.Judged, action.ControlOn = action.Judged.shared(shared[0], c.On), c.On
		return action, false
	case !c.Possible || !now.Before(until):
		return action, false
	}
	return action.next(DoControl, "a verified Node is to be asked the same", now.Add(controlRetry)), true
}

// judged is what came of the control Pod; runs is false where there is none.
func (c Control) judged(profile CompiledProfile, now time.Time) (judged Judged, runs bool) {
	if c.Pod == nil {
		return Judged{}, false
	}
	judged = Judge(*c.Pod, profile.Network(), now)
	return judged, judged.Verdict == VerdictRunning
}

// controlledUntil is how long an attempt waits for its control: a kubelet may delete the Pods on its Node.
func (a Action) controlledUntil() time.Time { return a.Pod.Created.Add(2 * a.Profile.longest()) }

// controlRetry is when to look again for a control Pod that was to be started.
const controlRetry = time.Second

// failedChecks are the required checks that failed.
func failedChecks(judged Judged) (names []string) {
	for _, result := range judged.Results {
		if result.Required && result.Outcome == Failed {
			names = append(names, result.Check)
		}
	}
	return names
}

// shared is what came of an attempt that failed as a verified Node does.
func (j Judged) shared(check, on string) Judged {
	message := ""
	for _, result := range j.Results {
		if result.Check == check {
			message = result.Message
		}
	}
	j.Verdict, j.Check, j.Reason = VerdictShared, check, ReasonShared
	j.Message = strings.TrimSuffix(fmt.Sprintf("verified Node %s fails it, too: %s", on, message), ": ")
	return j
}
