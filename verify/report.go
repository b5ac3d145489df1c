package verify

import "slices"

// MaxReport is the greatest length of a [Report] in bytes: the kubelet cuts a termination message there. [ReportLimit] has the limit of one Pod.
const MaxReport = 4096

// podMessages is how many bytes the kubelet keeps of the termination messages of all containers of a Pod. Each container gets an equal part.
//
// Source: normalizeStatus in pkg/kubelet/status, MaxPodTerminationMessageLogLength.
const podMessages = 12 * 1024

// spareContainers are the containers that other webhooks may add to a worker Pod before its report is cut.
const spareContainers = 2

// ReportLimit returns how many bytes a [Report] about these checks may have. Each check that is a container of the Pod leaves less.
func ReportLimit(checks []Check) int {
	containers := 1 + spareContainers
	for i := range checks {
		if checks[i].Container != nil {
			containers++
		}
	}
	return min(MaxReport, podMessages/containers)
}

// Outcome is what came of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"  // the check said no
	Skipped Outcome = "skipped" // not asked: it depends on what the cluster does not have yet (cold start)
)

// Report is the termination message of a worker: failures first, at most [ReportLimit] bytes of JSON.
type Report struct {
	Results []Result `json:"results"`
	Omitted int      `json:"omitted,omitempty"` // results that had no room; passed ones go first
}

// Result is what came of one check.
type Result struct {
	Check    string  `json:"check"`
	Outcome  Outcome `json:"outcome"`
	Required bool    `json:"required"`
	Reason   Reason  `json:"reason,omitempty"`  // of a check that failed or was skipped
	Message  string  `json:"message,omitempty"` // for display: one line, without control characters
	Millis   int     `json:"millis"`            // milliseconds from the first try to the end of the last one
	Tries    int     `json:"tries,omitempty"`
}

// Failed reports whether a required check failed.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Results, func(result Result) bool { return result.Required && result.Outcome == Failed })
}

// rank orders results in a report. A required failure is the last to be omitted, so that an omitted result never changes the verdict.
func (r Result) rank() int {
	switch {
	case r.Outcome == Failed && r.Required:
		return 0
	case r.Outcome == Failed:
		return 1
	case r.Outcome == Skipped:
		return 2
	}
	return 3
}
