package verify

import (
	"cmp"
	"fmt"
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
	if judged, ok := judgeRunning(pod, containers, containerNames(expected), profile, now); ok {
		return judged
	}
	judged := judgeEnded(pod, containers, expected)
	if judged.Verdict == VerdictInconclusive || !slices.ContainsFunc(expected, func(check Check) bool { return check.Kubelet != nil }) {
		return judged
	}
	if !pod.Log.Asked {
		return Judged{Again: now, NeedsLog: true, Why: Why{CauseAsksKubelet, "it was not asked yet"}}
	}
	if until := askUntil(pod, containers[Worker], profile, now); pod.Log.Reason != "" && now.Before(until) {
		return Judged{Again: earliest(now.Add(askEvery), until), NeedsLog: true, Why: Why{CauseAsksKubelet, Clean(pod.Log.Message)}}
	}
	return judged
}

// askEvery is the pause between two attempts to read the log. Serving certificates are approved moments after a Node is Ready.
const askEvery = time.Second

// askUntil is the deadline for the kubelet's answer. The timeout counts from the start of the worker, which its kubelet reports.
func askUntil(pod Pod, worker ContainerState, profile CompiledProfile, now time.Time) time.Time {
	started := latest(pod.Created, worker.Started)
	if started.After(now) {
		started = pod.Created
	}
	return started.Add(profile.Timeout)
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
func judgeRunning(pod Pod, containers map[string]ContainerState, names []string, profile CompiledProfile, now time.Time) (judged Judged, ok bool) {
	ended := !slices.ContainsFunc(names, func(name string) bool { return !containers[name].Ended })
	if ended || pod.Over() {
		return Judged{}, false
	}
	started := pod.Created
	for _, name := range names {
		container := containers[name]
		if container.Started.IsZero() && !container.Ended {
			cause, detail := container.notStarted(name)
			if until := pod.Created.Add(profile.StartTimeout); now.Before(until) {
				return Judged{Again: until, Why: Why{CauseWorkerStarts, detail}}, true
			}
			return inconclusive(cause, detail), true
		}
		if !container.Started.After(now) {
			started = latest(started, container.Started)
		}
	}
	until := started.Add(profile.Timeout + grace)
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

// containerNames are the containers of a worker Pod.
func containerNames(checks []Check) []string {
	names := []string{Worker}
	for _, check := range checks {
		if check.Container != nil {
			names = append(names, check.Name)
		}
	}
	return names
}

// judgeEnded judges a Pod that will report no more.
func judgeEnded(pod Pod, containers map[string]ContainerState, expected []Check) Judged {
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
			results = append(results, judgeContainer(check, containers[check.Name], pod))
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
func judgeContainer(check Check, container ContainerState, pod Pod) Result {
	result := Result{Check: check.Name, Required: check.IsRequired(), Outcome: Passed}
	switch {
	case container.Ended && container.ExitCode == 0:
	case pod.Reason != "", pod.Over() && !container.Ended: // evicted, or the Node shut down
		result.Outcome, result.Reason, result.Message = Skipped, "CutOff", "the container did not run to its end"
	case !container.Ended:
		result.Outcome, result.Reason, result.Message = Failed, ReasonTimeout, "the container did not end in time"
	default:
		result.Outcome, result.Reason, result.Message = Failed, "ExitCode", fmt.Sprintf("the container ended with exit code %d", container.ExitCode)
	}
	return result
}

func inconclusive(cause Cause, message string) Judged {
	return Judged{Verdict: VerdictInconclusive, Reason: string(cause), Message: Shorten(message)}
}
