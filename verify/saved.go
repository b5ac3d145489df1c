package verify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names of ConfigMaps in the namespace of worker Pods. They keep the last failed report of each Node, and the last trial of each profile.
const (
	ReportLabel  = "nodekeep.dev/check-report" // its value is "true"
	ReportKey    = "report.json"               // of the data
	reportPrefix = "check."
	reportHash   = 8 // bytes
)

// SavedReport is the last attempt that did not pass, of a Node that may be deleted by now. Or it is the last trial of a profile, which may have passed.
// What the worker said in it is untrusted.
type SavedReport struct {
	Node    string    `json:"node"`
	UID     string    `json:"uid"`
	Profile string    `json:"profile"`
	Hash    string    `json:"hash,omitempty"` // of a trial: that of the profile's checks
	Round   int       `json:"round"`
	Attempt int       `json:"attempt"` // 1 is the first one of the round
	Time    time.Time `json:"time"`
	Result  Verdict   `json:"result"`
	Check   string    `json:"check,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Skipped []string  `json:"skipped,omitempty"` // checks that were left out at a cold start
	Results []Result  `json:"results,omitempty"` // failures first
}

// Report returns what is kept of an attempt that did not pass.
func (a Action) Report(node *Node) SavedReport {
	last := a.Progress.Last
	return SavedReport{
		Node: node.Name, UID: node.UID, Profile: a.Profile.Name, Round: a.Progress.Round, Attempt: a.Progress.Attempts, Time: last.Time,
		Result: last.Result, Check: last.Check, Reason: last.Reason, Message: a.Judged.Message, Skipped: last.Skipped, Results: a.Judged.Results,
	}
}

// Name returns the name of the ConfigMap that keeps the report.
func (r SavedReport) Name() string {
	if r.Hash != "" {
		return TrialName(r.Profile)
	}
	return ReportName(r.Node)
}

// String returns the report as JSON.
func (r SavedReport) String() string { return toJSON(r) }

// ParseSavedReport reads a report that was kept. The caller compares its Node with the one that it asked for.
func ParseSavedReport(text string) (SavedReport, error) {
	var report SavedReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return SavedReport{}, fmt.Errorf("read kept report: %w", err)
	}
	return report, nil
}

// ReportName returns the name of the ConfigMap that keeps the report of a Node: "check." and the Node's name. If that is too long, its end is replaced by
// a hash of the whole name. The report inside names its Node.
func ReportName(node string) string {
	name := reportPrefix + node
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	suffix := "." + hash(reportHash, "%s", node)
	return strings.TrimRight(name[:validation.DNS1123SubdomainMaxLength-len(suffix)], ".-") + suffix
}
