package health

import (
	"cmp"
	"slices"
)

// Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Error   Severity = "error"   // labels or taints do not come back, or Nodes do not get ready
	Warning Severity = "warning" // it works, and will not under the next fault, or for long
	Lacking Severity = "unknown" // it could not be found out
)

// Finding is something that is not as it should be, or that could not be found out.
type Finding struct {
	Severity Severity `json:"severity"`
	Object   string   `json:"object,omitempty"` // as kubectl takes it
	What     string   `json:"what"`             // with what comes of it
	Remedy
}

// Remedy is how something is put right.
type Remedy struct {
	Text     string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"` // to be run as they are
}

// Status is what became of a check.
type Status string

// StatusOK is that of a check that found everything right; that of any other is the severity of its worst finding.
const StatusOK Status = "ok"

// Result is what became of one check.
type Result struct {
	Check    string    `json:"check"`
	Status   Status    `json:"status"`
	What     string    `json:"what"`
	Findings []Finding `json:"findings,omitempty"`
}

// Report is what became of all.
type Report struct {
	Healthy  bool     `json:"healthy"`  // nothing was found, and everything is known
	Findings int      `json:"findings"` // errors and warnings
	Unknown  int      `json:"unknown"`
	Checks   []Result `json:"checks"`
}

// answer is what a check says.
type answer struct {
	ok       string // what it says where all is right
	findings []Finding
}

func (a *answer) add(findings ...Finding) { a.findings = append(a.findings, findings...) }

// lacks adds that something could not be found out.
func lacks[T any](a *answer, object string, read Read[T]) {
	if !read.asked() {
		a.add(Finding{Severity: Lacking, Object: object, What: cmp.Or(read.Unknown.Why, "it was not looked at"), Remedy: read.Unknown.Remedy})
	}
}

func (a answer) result(name string) Result {
	findings := slices.Clone(a.findings)
	slices.SortStableFunc(findings, func(x, y Finding) int { return cmp.Compare(rank(x.Severity), rank(y.Severity)) })
	if len(findings) == 0 {
		return Result{Check: name, Status: StatusOK, What: a.ok}
	}
	return Result{Check: name, Status: Status(findings[0].Severity), What: findings[0].What, Findings: findings}
}

func rank(s Severity) int { return slices.Index([]Severity{Error, Warning, Lacking}, s) }

// Judge answers every question but those that are to be left out.
func Judge(seen Seen, leaveOut []string) Report {
	report := Report{Healthy: true}
	for _, check := range checks() {
		if slices.Contains(leaveOut, check.name) {
			continue
		}
		result := check.judge(seen).result(check.name)
		for _, finding := range result.Findings {
			report.Healthy = false
			if finding.Severity == Lacking {
				report.Unknown++
			} else {
				report.Findings++
			}
		}
		report.Checks = append(report.Checks, result)
	}
	return report
}

// Names are those of all checks, in their order.
func Names() []string {
	var names []string
	for _, check := range checks() {
		names = append(names, check.name)
	}
	return names
}
