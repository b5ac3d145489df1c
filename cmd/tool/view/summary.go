package view

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
)

// Presence says whether there is a Node, and a record of it.
type Presence string

// The presences.
const (
	Present    Presence = "Present"    // a Node, and a record of it
	Unrecorded Presence = "Unrecorded" // a Node without a record
	Gone       Presence = "Gone"       // a record of a Node that is gone
	Unreadable Presence = "Unreadable" // a record from which nothing may be taken
	Forgotten  Presence = "Forgotten"  // neither any more
)

// Summary is one line about one Node.
type Summary struct {
	Name     string       `json:"name"`
	Status   Presence     `json:"status"`
	Since    *metav1.Time `json:"since,omitempty"` // of a Node, when it was made; of one that is gone, since when
	UID      types.UID    `json:"uid,omitempty"`
	Labels   int          `json:"labels"` // that are remembered
	Taints   int          `json:"taints"`
	Withheld int          `json:"withheld"` // of these, how many are not given today
	Current  bool         `json:"current"`  // nothing is left to do about the Node
	Why      string       `json:"why,omitempty"`
	Gated    bool         `json:"gated"`
	// LastChange is when something of what is remembered changed last, as far as is known, and by whom.
	LastChange *metav1.Time `json:"lastChange,omitempty"`
	ChangedBy  string       `json:"changedBy,omitempty"`
}

// SummaryOf looks at one Node. The summary holds nothing of the Sight's objects: a pointer into a Node would keep in memory the whole
// page that the Node was read with.
func SummaryOf(s Sight, w World) Summary {
	summary := Summary{Name: s.Name, Status: s.presence(), Current: true}
	if s.Record != nil {
		labels, taints := policy.Split(s.Record.Remembered())
		summary.Labels, summary.Taints, summary.Withheld = len(labels), len(taints), len(s.Record.Withheld.Items)
		summary.UID, summary.Since = s.Record.UID, s.Record.DeletedAt
		if history := s.Record.History; len(history) > 0 {
			last := history[len(history)-1]
			at := last.Time
			summary.LastChange, summary.ChangedBy = &at, last.Actor
		}
	}
	if s.Node != nil {
		made := s.Node.CreationTimestamp
		summary.UID, summary.Since = s.Node.UID, &made
		summary.Gated = w.Policy.Gate().On(s.Node.Spec.Taints)
	}
	if summary.Why = s.left(w); summary.Why != "" {
		summary.Current = false
	}
	return summary
}

// Same reports whether two lines say the same but for how long ago it was.
func (s Summary) Same(other Summary) bool {
	sameTime := func(a, b *metav1.Time) bool { return a == b || a != nil && a.Equal(b) }
	times := sameTime(s.Since, other.Since) && sameTime(s.LastChange, other.LastChange)
	s.Since, s.LastChange, other.Since, other.LastChange = nil, nil, nil, nil
	return times && s == other
}

func (s Sight) presence() Presence {
	switch {
	case s.Unreadable != nil:
		return Unreadable
	case s.Record == nil && s.Node == nil:
		return Forgotten
	case s.Record == nil:
		return Unrecorded
	case s.Node == nil:
		return Gone
	default:
		return Present
	}
}

// left is what is left to do about a Node, in a few words; nothing where all is as it should be.
func (s Sight) left(w World) string {
	switch {
	case s.Unreadable != nil:
		return "record cannot be read"
	case s.Record != nil && s.Record.Quarantined != nil:
		return "quarantined"
	case s.Node == nil && s.Record != nil && s.Record.DeletedAt == nil:
		return "not marked as gone"
	case s.Node == nil:
		return ""
	}
	switch next := s.next(w); next.Step {
	case capture.Nothing:
		return ""
	case capture.Create:
		return "not recorded yet"
	case capture.Complete:
		return fmt.Sprintf("%d to give back", len(next.Give)+len(next.PutRight)+len(next.TakeBack)+len(next.Register))
	case capture.Lift:
		return "gate to be lifted"
	case capture.FollowRules:
		return "taints to follow the rules"
	case capture.Isolate:
		return "another machine"
	default:
		return "change not recorded yet"
	}
}

// SummaryTable has a line for each Node.
func SummaryTable(summaries []Summary, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Name"), column("Status"), column("Since"), column("Labels"), column("Taints"), column("Gated"), column("Last Change"), column("Current"),
		wideColumn("Changed By"), wideColumn("Withheld"), wideColumn("UID"),
	}}
	for _, s := range summaries {
		current := "yes"
		switch {
		case s.Why != "":
			current = "no: " + s.Why
		case s.Status == Gone, s.Status == Forgotten:
			current = none
		}
		table.Rows = append(table.Rows, row(s.Name, string(s.Status), ago(s.Since, now), s.Labels, s.Taints, yesNo(s.Gated), ago(s.LastChange, now), current, orNone(s.ChangedBy), s.Withheld, orNone(string(s.UID))))
	}
	return table
}
