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

// Over reports whether all containers of a Pod have ended for good.
func (p Pod) Over() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// grace is what a kubelet may take, beyond the timeout of the checks, to report that a container has ended.
const grace = 10 * time.Second

// Judged is what came of a worker Pod so far.
type Judged struct {
	Verdict Verdict
	Results []Result  // of all checks that are known, failures first
	Garbage error     // why the worker's report is of no use, where that decided
	Again   time.Time // of a Pod that is not done: when it will have taken too long
	// NeedsLog is true of a Pod that is not done, but for its log, which is to be read.
	NeedsLog bool
	Why      Why    // of a Pod that is not done
	Check    string // the check that decided; empty where none did
	Reason   string // a word for machines
	Message  string
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
		return Judged{Again: now, NeedsLog: true, Why: Why{CauseAsksKubelet, "it was not asked yet"}}
	}
	if until := askUntil(pod, containers[Worker], kubeletTimeout(expected, profile), now); pod.Log.Reason != "" && now.Before(until) {
		return Judged{Again: earliest(now.Add(askEvery), until), NeedsLog: true, Why: Why{CauseAsksKubelet, Clean(pod.Log.Message)}}
	}
	return judged
}

// askEvery is the pause between two attempts to read the log. Serving certificates are approved moments after a Node is Ready.
const askEvery = time.Second

// askUntil is the deadline for the kubelet's answer. The timeout counts from the start of the worker, which its kubelet reports.
func askUntil(pod Pod, worker ContainerState, timeout time.Duration, now time.Time) time.Time {
	started := latest(pod.Created, worker.Started)
	if started.After(now) {
		started = pod.Created
	}
	return started.Add(timeout)
}

// TimeoutOf is how long a check takes at most.
func (p CompiledProfile) TimeoutOf(check Check) time.Duration {
	if timeout, err := time.ParseDuration(check.Timeout); err == nil && timeout > 0 {
		return min(timeout, p.Timeout)
	}
	return p.Timeout
}

// kubeletTimeout is how long the kubelet is asked. One answer counts for all checks of that kind, so the longest timeout does.
func kubeletTimeout(checks []Check, profile CompiledProfile) (longest time.Duration) {
	for _, check := range checks {
		if check.Kubelet != nil {
			longest = max(longest, profile.TimeoutOf(check))
		}
	}
	return longest
}

// judgeKubelet is the result of a kubelet check.
func judgeKubelet(check Check, log Log) Result {
	result := Result{Check: check.Name, Required: check.IsRequired(), Outcome: Passed}
	if log.Reason != "" {
		result.Outcome, result.Reason, result.Message = Failed, log.Reason, Clean(log.Message)
	}
	return result
}

// judgeRunning judges a Pod that may still run, or did not start in time. If the Pod has ended or its time is over, ok is false.
func judgeRunning(pod Pod, containers map[string]ContainerState, expected []Check, profile CompiledProfile, now time.Time) (judged Judged, ok bool) {
	timeouts := containerTimeouts(expected, profile)
	names := slices.Sorted(maps.Keys(timeouts))
	ended := !slices.ContainsFunc(names, func(name string) bool { return !containers[name].Ended })
	if ended || pod.Over() {
		return Judged{}, false
	}
	started, until := pod.Created, time.Time{} // when the last container that runs must have ended
	for _, name := range names {
		container := containers[name]
		if container.Started.IsZero() && !container.Ended {
			cause, detail := container.notStarted(name)
			if until := pod.Created.Add(profile.StartTimeout); now.Before(until) {
				return Judged{Again: until, Why: Why{CauseWorkerStarts, detail}}, true
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
			until = latest(until, started.Add(timeouts[name]+grace))
		default:
			until = latest(until, container.Started.Add(timeouts[name]+grace))
		}
	}
	return Judged{Again: until, Why: Why{Cause: CauseWorkerRuns}}, now.Before(until)
}

// notStarted says why a container has not started: its kubelet's word and message. The first reasons are those of images.
func (c ContainerState) notStarted(name string) (cause Cause, detail string) {
	says := strings.TrimSuffix(cmp.Or(c.Reason, "its kubelet does not say why")+": "+Clean(c.Message), ": ")
	if strings.Contains(c.Reason, "Image") || c.Reason == "RegistryUnavailable" || c.Reason == "SignatureValidationFailed" {
		return CauseImage, fmt.Sprintf("%s of container %s: %s", c.Image, name, says)
	}
	return CauseNotStarted, fmt.Sprintf("container %s: %s", name, says)
}

// containerTimeouts are the containers of a worker Pod, and how long each may run.
func containerTimeouts(checks []Check, profile CompiledProfile) map[string]time.Duration {
	timeouts := map[string]time.Duration{Worker: profile.Timeout}
	for _, check := range checks {
		if check.Container != nil {
			timeouts[check.Name] = profile.TimeoutOf(check)
		}
	}
	return timeouts
}

// judgeEnded judges a Pod that will report no more.
func judgeEnded(pod Pod, containers map[string]ContainerState, expected []Check, profile CompiledProfile) Judged {
	worker := containers[Worker]
	if !worker.Ended && !pod.Over() {
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
		if check.Kubelet != nil {
			results = append(results, judgeKubelet(check, pod.Log))
		}
		if check.Container != nil {
			results = append(results, judgeContainer(check, containers[check.Name], pod, profile.TimeoutOf(check)))
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

// judgeContainer is the result of a container check.
func judgeContainer(check Check, container ContainerState, pod Pod, timeout time.Duration) Result {
	took := ran(container)
	late := check.Timeout != "" && took > timeout+time.Second // times of kubelets are whole seconds
	result := Result{Check: check.Name, Required: check.IsRequired(), Outcome: Passed, Millis: int(took.Milliseconds())}
	switch {
	case container.Ended && container.ExitCode == 0 && !late:
	case pod.Reason != "", pod.Over() && !container.Ended: // evicted, or the Node shut down
		result.Outcome, result.Reason, result.Message = Skipped, "CutOff", "the container did not run to its end"
	case !container.Ended:
		result.Outcome, result.Reason, result.Message = Failed, ReasonTimeout, "the container did not end in time"
	case late:
		result.Outcome, result.Reason, result.Message = Failed, ReasonTimeout, fmt.Sprintf("the container ran for %s, longer than %s", took, timeout)
	default:
		result.Outcome, result.Reason, result.Message = Failed, "ExitCode", fmt.Sprintf("the container ended with exit code %d", container.ExitCode)
	}
	return result
}

// ran is how long a container ran, as its kubelet says; 0 where that is not known.
func ran(container ContainerState) time.Duration {
	if !container.Ended || container.Started.IsZero() || container.Finished.Before(container.Started) {
		return 0
	}
	return container.Finished.Sub(container.Started)
}

func inconclusive(cause Cause, message string) Judged {
	return Judged{Verdict: VerdictInconclusive, Reason: string(cause), Message: Shorten(message)}
}
