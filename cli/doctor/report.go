package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/cli/view"
)

// Severity shows how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Error           Severity = "error"   // labels or taints are not restored, or Nodes do not get ready
	Warning         Severity = "warning" // it works, and will not under the next fault, or for long
	SeverityUnknown Severity = "unknown" // it could not be found out
	Note            Severity = "note"    // nothing is wrong, and an operator may want to know
)

// Finding is something that is not as it should be, or that could not be found out.
type Finding struct {
	Severity Severity `json:"severity"`
	Object   string   `json:"object,omitempty"` // as kubectl takes it
	Message  string   `json:"what"`             // with what comes of it
	Remedy
}

// Remedy is how to correct a finding.
type Remedy struct {
	Text     string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"` // to be run as they are
}

// Status is what became of a check.
type Status string

// StatusOK is the status of a check that found everything right. The status of any other check is the severity of its worst finding.
const StatusOK Status = "ok"

// Result is what became of one check.
type Result struct {
	Check    string    `json:"check"`
	Status   Status    `json:"status"`
	Title    string    `json:"what"`
	Findings []Finding `json:"findings,omitempty"`
}

// Summary returns one line about the result: its text if everything is right, otherwise the number of findings.
func (r Result) Summary() string {
	if r.Status == StatusOK {
		return r.Title
	}
	var parts []string
	for _, severity := range severities() {
		n := 0
		for _, finding := range r.Findings {
			if finding.Severity == severity {
				n++
			}
		}
		switch {
		case n == 0 || severity == Note:
		case severity == SeverityUnknown:
			parts = append(parts, fmt.Sprintf("%d unknown", n))
		default:
			parts = append(parts, view.Counted(n, string(severity)))
		}
	}
	return strings.Join(parts, ", ") + "; see below"
}

// Report is what became of all.
type Report struct {
	Healthy  bool     `json:"healthy"`  // nothing was found but notes, and everything is known
	Findings int      `json:"findings"` // errors and warnings
	Unknown  int      `json:"unknown"`
	Checks   []Result `json:"checks"`
}

// answer is what a check says.
type answer struct {
	okText   string // what it shows where all is right
	findings []Finding
}

// add adds what is not as it should be.
func (a *answer) add(severity Severity, object string, remedy Remedy, message string, args ...any) {
	a.findings = append(a.findings, Finding{Severity: severity, Object: object, Message: fmt.Sprintf(message, args...), Remedy: remedy})
}

// addRest adds how many there are in addition to those of many that are named.
func addRest[T any](a *answer, severity Severity, sample Sample[T], message string, commands ...string) {
	if left := sample.left(); left > 0 {
		a.add(severity, "", newRemedy("All of them:", commands...), "%d more %s", left, message)
	}
}

// addUnknown adds that something could not be found out.
func addUnknown[T any](a *answer, object string, read Reading[T]) {
	if !read.isKnown() {
		a.add(SeverityUnknown, object, read.Unknown.Remedy, "%s", cmp.Or(read.Unknown.Reason, "it was not looked at"))
	}
}

func (a answer) result(name string) Result {
	findings := slices.Clone(a.findings)
	slices.SortStableFunc(findings, func(x, y Finding) int { return cmp.Compare(rank(x.Severity), rank(y.Severity)) })
	if len(findings) == 0 || findings[0].Severity == Note {
		return Result{Check: name, Status: StatusOK, Title: a.okText, Findings: findings}
	}
	return Result{Check: name, Status: Status(findings[0].Severity), Title: findings[0].Message, Findings: findings}
}

// severities returns all of them, the worst first.
func severities() []Severity { return []Severity{Error, Warning, SeverityUnknown, Note} }

// verb returns the verb of so many things.
func verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func rank(s Severity) int { return slices.Index(severities(), s) }

// RunChecks answers every question but those that are to be left out. Where nothing is installed in the namespace, that is the whole answer.
func RunChecks(seen Installation, skip []string) Report {
	report := Report{Healthy: true}
	absent := (seen.nothingInstalled() || seen.otherNamespace() != "") && !slices.Contains(skip, checkInstallation)
	for _, check := range checks() {
		if slices.Contains(skip, check.name) || absent && check.name != checkInstallation {
			continue
		}
		result := check.judge(seen).result(check.name)
		for i, finding := range result.Findings {
			result.Findings[i].Remedy = seen.inNamespace(finding.Remedy)
			switch finding.Severity {
			case Note:
				continue
			case SeverityUnknown:
				report.Unknown++
			default:
				report.Findings++
			}
			report.Healthy = false
		}
		report.Checks = append(report.Checks, result)
	}
	return report
}

// ReportedFinding is a finding, and the checks that have come to it.
type ReportedFinding struct {
	Finding
	Checks []string
	order  int // of the first finding with the same remedy
}

// Sentence returns the finding in one line. Findings of a missing right omit the object, so that they are shown once.
func (f Finding) Sentence() string {
	if f.Object == "" || f.Severity == SeverityUnknown {
		return f.Message
	}
	return f.Object + ": " + f.Message
}

// Distinct returns all findings, each once, the worst first, and those with the same remedy one after the other.
func (r Report) Distinct() (all []ReportedFinding) {
	for _, result := range r.Checks {
		for _, finding := range result.Findings {
			matches := func(reported ReportedFinding) bool {
				return reported.Severity == finding.Severity && reported.Sentence() == finding.Sentence()
			}
			if i := slices.IndexFunc(all, matches); i >= 0 {
				if !slices.Contains(all[i].Checks, result.Check) {
					all[i].Checks = append(all[i].Checks, result.Check)
				}
				continue
			}
			reported := ReportedFinding{Finding: finding, Checks: []string{result.Check}}
			all = append(all, reported)
			all[len(all)-1].order = slices.IndexFunc(all, func(o ReportedFinding) bool { return o.Severity == reported.Severity && o.SameRemedy(reported) })
		}
	}
	slices.SortStableFunc(all, func(a, b ReportedFinding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.order, b.order))
	})
	return all
}

// SameRemedy reports whether two findings have the same remedy.
func (f ReportedFinding) SameRemedy(finding ReportedFinding) bool {
	return f.Text == finding.Text && slices.Equal(f.Commands, finding.Commands)
}

// Names returns those of all checks, in their order.
func Names() []string {
	var names []string
	for _, check := range checks() {
		names = append(names, check.name)
	}
	return names
}
