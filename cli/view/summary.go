package view

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// Summary is one line about one Node.
type Summary struct {
	Name        string           `json:"name"`
	Status      nodestate.Status `json:"status"`
	StatusStart time.Time        `json:"since,omitzero"` // of a Node, its creation; of a deleted one, its deletion
	UID         types.UID        `json:"uid,omitempty"`
	Labels      int              `json:"labels"` // that are recorded
	Taints      int              `json:"taints"`
	// Annotations are counted only where the policy keeps any.
	Annotations int    `json:"annotations,omitempty"`
	NotShown    int    `json:"notShown"`   // of these, how many the Node does not show
	RuleLabels  int    `json:"ruleLabels"` // that rules set last
	Current     bool   `json:"current"`    // nothing is left to do about the Node
	Reason      string `json:"why,omitempty"`
	Gated       bool   `json:"gated"`
	Unverified  bool   `json:"unverified,omitempty"` // it has a taint of verification
	// LastChange is when the record changed last, as far as is known, and by whom.
	LastChange time.Time `json:"lastChange,omitzero"`
	ChangedBy  string    `json:"changedBy,omitempty"`
}

// SummaryOf summarizes one Node. The summary has no pointers into the nodestate.State's objects. Such a pointer would keep the whole page of the Node in
// memory.
func SummaryOf(s nodestate.State, inputs plan.Inputs) Summary {
	summary := Summary{Name: s.Name, Status: s.Status(inputs), Current: true}
	if s.Record != nil {
		items := s.Record.Items()
		labels, taints := record.Split(items)
		summary.Labels, summary.Taints, summary.Annotations = len(labels), len(taints), len(record.SplitAnnotations(items))
		for _, e := range s.Record.Entries {
			if e.NotShown && !e.Removed {
				summary.NotShown++
			}
		}
		for _, ruleLabel := range s.Record.RuleLabels {
			if !ruleLabel.Absent {
				summary.RuleLabels++
			}
		}
		summary.UID, summary.StatusStart = s.Record.Newest().UID, s.Record.DeletedAt
		if changes := history.Changes(*s.Record); len(changes) > 0 {
			last := changes[len(changes)-1]
			summary.LastChange, summary.ChangedBy = last.Time.UTC(), last.Actor
		}
	}
	if s.Node != nil {
		summary.UID, summary.StatusStart = s.Node.UID, s.Node.CreationTimestamp.UTC()
		summary.Gated = inputs.Policy.Gate().Present(s.Node.Spec.Taints)
		summary.Unverified = len(inputs.Policy.Verify().ClosingTaints(s.Node.Spec.Taints)) > 0
	}
	if summary.Reason = pendingWork(s, inputs); summary.Reason != "" {
		summary.Current = false
	}
	return summary
}

// Equal reports whether two lines say the same but for how long ago it was.
func (s Summary) Equal(o Summary) bool {
	times := s.StatusStart.Equal(o.StatusStart) && s.LastChange.Equal(o.LastChange)
	s.StatusStart, s.LastChange = o.StatusStart, o.LastChange
	return times && s == o
}

// pendingWork shows in a few words what is left to do about a Node. It is empty if nothing is.
func pendingWork(s nodestate.State, inputs plan.Inputs) string {
	switch {
	case s.Unreadable != nil:
		return "record cannot be read"
	case s.Record != nil && s.Record.Quarantined != nil:
		return "quarantined"
	case s.Node == nil && s.Record != nil && s.Record.DeletedAt.IsZero():
		return "not marked as deleted"
	case s.Node == nil:
		return ""
	}
	switch next, _, _ := s.Simulate(inputs); next.Step {
	case capture.NoStep:
		return ""
	case capture.StepCreateRecord:
		return "not recorded yet"
	case capture.StepRestore:
		return fmt.Sprintf("%d to restore", len(next.WithCause(plan.CauseRecord, plan.CauseCorrection, plan.CauseRegistrationTaint)))
	case capture.StepLiftGate:
		return "gate to be lifted"
	case capture.StepApplyRules:
		return "taints to follow the rules"
	case capture.StepRestoreOwners:
		return "owners to restore"
	case capture.StepNoteBoot:
		return "boot to be noted"
	case capture.StepQuarantine, capture.StepNewMachine:
		return "another machine"
	case capture.StepReturnMachine:
		return "record to return"
	case capture.StepEndQuarantine:
		return "quarantine to end"
	default:
		return "change not recorded yet"
	}
}

// gatedText returns in a word whether the Node waits behind the gate, or until it is verified.
func (s Summary) gatedText() string {
	if !s.Gated && s.Unverified {
		return "unverified"
	}
	return yesNo(s.Gated)
}

// SummaryList is every Node and every record.
type SummaryList struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []Summary       `json:"items"`
}

// Names returns the names of the Nodes.
func (l SummaryList) Names() (names []string) {
	for _, s := range l.Items {
		names = append(names, s.Name)
	}
	return names
}

// Document returns the answer as text.
func (l SummaryList) Document(now time.Time) Document {
	return Document{Tables: []*metav1.Table{l.Table(now)}}
}

// Table has a line for each Node.
func (l SummaryList) Table(now time.Time) *metav1.Table {
	table := tableOf("Name", "Status", "Since", "Labels", "Taints", "Gated", "Last Change", "Current", "+Changed By", "+Not Shown", "+Rule Labels", "+UID")
	for _, s := range l.Items {
		current := "yes"
		switch {
		case s.Reason != "":
			current = "no: " + s.Reason
		case s.Status == nodestate.Gone, s.Status == nodestate.Forgotten:
			current = noValue
		}
		addRow(table, s.Name, string(s.Status), age(s.StatusStart, now), s.Labels, s.Taints, s.gatedText(), age(s.LastChange, now), current, orDash(s.ChangedBy), s.NotShown, s.RuleLabels, orDash(string(s.UID)))
	}
	return table
}
