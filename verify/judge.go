package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ended reports whether all containers of a Pod have ended for good.
func (p Pod) Ended() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// container returns the last state of a container that the Pod's status has.
func (p Pod) container(name string) (state ContainerState) {
	for _, container := range p.Containers {
		if container.Name == name {
			state = container
		}
	}
	return state
}

// grace is what a kubelet may take, beyond the timeout of the checks, to report that a container has ended.
const grace = 10 * time.Second

// Judged is what came of a worker Pod so far.
type Judged struct {
	Verdict  Verdict
	Results  []Result  // of all checks that are known, failures first
	Garbage  error     // why the worker's report is of no use, where that decided
	Deadline time.Time // of a Pod that is not done: when it will have taken too long
	// NeedsLog is true of a Pod that is not done, but for its log, which is to be read.
	NeedsLog  bool
	Diagnosis Diagnosis // of a Pod that is not done
	Check     string    // the check that decided; empty where none did
	Reason    string    // a word for machines
	Message   string
}

// Judge reports what came of a worker Pod of this profile. Everything in the Pod's status is untrusted: it can make this Node pass or fail, nothing
// else. Containers that other webhooks add to the Pod do not matter.
func Judge(pod Pod, profile CompiledProfile, now time.Time) Judged {
	containers := map[string]ContainerState{}
	for _, container := range pod.Containers {
		containers[container.Name] = container
	}
	expected := slices.DeleteFunc(slices.Clone(profile.Checks), func(check Check) bool { return slices.Contains(pod.Skipped, check.Name) })
	if judged, ok := judgeRunning(pod, containers, expected, profile, now); ok {
		return judged
	}
	judged := judgeEnded(pod, containers, expected, profile)
	if judged.Verdict == VerdictInconclusive || !slices.ContainsFunc(expected, func(check Check) bool { return check.Kubelet != nil }) {
		return judged
	}
	if !pod.Log.Asked {
		return Judged{Deadline: now, NeedsLog: true, Diagnosis: Diagnosis{CauseAsksKubelet, "it was not asked yet"}}
	}
	if deadline := askUntil(pod, containers[Worker], kubeletTimeout(expected, profile), now); pod.Log.Reason != "" && now.Before(deadline) {
		return Judged{Deadline: earliest(now.Add(askEvery), deadline), NeedsLog: true, Diagnosis: Diagnosis{CauseAsksKubelet, Clean(pod.Log.Message)}}
	}
	return judged
}

// TimeoutOf returns how long a check takes at most.
func (p CompiledProfile) TimeoutOf(check Check) time.Duration {
	if timeout, err := time.ParseDuration(check.Timeout); err == nil && timeout > 0 {
		return min(timeout, p.Timeout)
	}
	return p.Timeout
}

// judgeRunning judges a Pod that may still run, or did not start in time. If the Pod has ended or its time is over, ok is false.
func judgeRunning(pod Pod, containers map[string]ContainerState, expected []Check, profile CompiledProfile, now time.Time) (judged Judged, ok bool) {
	timeouts := containerTimeouts(expected, profile)
	names := slices.Sorted(maps.Keys(timeouts))
	ended := !slices.ContainsFunc(names, func(name string) bool { return !containers[name].Ended })
	if ended || pod.Ended() {
		return Judged{}, false
	}
	started, deadline := pod.Created, time.Time{} // when the last container that runs must have ended
	for _, name := range names {
		container := containers[name]
		if container.Started.IsZero() && !container.Ended {
			cause, detail := container.notStarted(name)
			if end := pod.Created.Add(profile.StartTimeout); now.Before(end) {
				return Judged{Deadline: end, Diagnosis: Diagnosis{CauseWorkerStarts, detail}}, true
			}
			if class := RuntimeClass(expected); class != "" {
				detail += "; RuntimeClass " + class
			}
			return inconclusive(cause, detail), true
		}
		if !container.Started.After(now) {
			started = latest(started, container.Started)
		}
	}
	for _, name := range names {
		switch container := containers[name]; {
		case container.Ended:
		case timeouts[name] == profile.Timeout || container.Started.After(now):
			deadline = latest(deadline, started.Add(timeouts[name]+grace))
		default:
			deadline = latest(deadline, container.Started.Add(timeouts[name]+grace))
		}
	}
	return Judged{Deadline: deadline, Diagnosis: Diagnosis{Cause: CauseWorkerRuns}}, now.Before(deadline)
}

// notStarted says why a container has not started: its kubelet's word and message. The first reasons are those of images.
func (c ContainerState) notStarted(name string) (cause Cause, detail string) {
	says := strings.TrimSuffix(cmp.Or(c.Reason, "its kubelet does not say why")+": "+Clean(c.Message), ": ")
	if strings.Contains(c.Reason, "Image") || c.Reason == "RegistryUnavailable" || c.Reason == "SignatureValidationFailed" {
		return CauseImage, fmt.Sprintf("%s of container %s: %s", c.Image, name, says)
	}
	return CauseNotStarted, fmt.Sprintf("container %s: %s", name, says)
}

// judgeEnded judges a Pod that will report no more.
func judgeEnded(pod Pod, containers map[string]ContainerState, expected []Check, profile CompiledProfile) Judged {
	worker := containers[Worker]
	if !worker.Ended && !pod.Ended() {
		return inconclusive(CauseHung, "it has run longer than the profile's timeout")
	}
	if !worker.Ended || worker.Message == "" { // evicted, out of memory, its kubelet shut down
		return inconclusive(CauseNoReport, cmp.Or(pod.Reason, worker.Reason, "its kubelet does not say why"))
	}
	report, err := ParseReport(worker.Message, expected)
	if err != nil {
		judged := inconclusive(CauseBadReport, err.Error())
		judged.Garbage = err
		return judged
	}
	results := report.Results
	for _, check := range expected {
		if !check.ByWorker() {
			results = append(results, check.question().answered().judge(check, pod, profile.TimeoutOf(check)))
		}
	}
	slices.SortStableFunc(results, func(a, b Result) int { return a.rank() - b.rank() })
	required := slices.DeleteFunc(slices.Clone(results), func(result Result) bool { return !result.Required || result.Outcome == Passed })
	judged := Judged{Results: results, Verdict: VerdictPassed}
	switch {
	case len(required) == 0 && worker.ExitCode == 0:
	case len(required) == 0, worker.ExitCode != 0 && worker.ExitCode != 1: // 1 is a required check that failed
		judged.Verdict, judged.Reason = VerdictInconclusive, string(CauseWorkerFailed)
		judged.Message = fmt.Sprintf("the worker ended with exit code %d", worker.ExitCode)
	default:
		first := required[0]
		judged.Check, judged.Reason, judged.Message = first.Check, string(first.Reason), first.Message
		judged.Verdict = VerdictInconclusive // the worker skips nothing that it is asked, and a container that was cut off says nothing about the Node
		if first.Outcome == Failed {
			judged.Verdict = VerdictFailed
		}
	}
	return judged
}

func inconclusive(cause Cause, message string) Judged {
	return Judged{Verdict: VerdictInconclusive, Reason: string(cause), Message: Shorten(message)}
}
