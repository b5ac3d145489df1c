package report

import (
	"cmp"
	"slices"
	"time"
)

// The sections of a report.
const (
	SummarySection    = "summary"
	ComplianceSection = "compliance"
	DriftSection      = "drift"
	UsageSection      = "usage"
	CostSection       = "cost"
)

// Sections returns all sections, in the order in which they are shown.
func Sections() []string {
	return []string{SummarySection, ComplianceSection, DriftSection, UsageSection, CostSection}
}

// Limits of a report. It counts the entries that it leaves out.
const (
	maxPairs     = 300_000 // of a key and a value, of all labels together
	maxResources = 64      // names of resources
	maxDetails   = 10_000  // violations, and drifted labels, each with its Node
	maxGroups    = 2_000   // of equal violations, of equal drift, of changed keys
	maxFirst     = 5       // names that stand for many
	maxLatest    = 50      // changes
	maxText      = 80      // characters of a value; no label has a longer one
	daysOfChange = 30
)

// Report is what was found. A section that was not asked for is nil.
type Report struct {
	GeneratedAt time.Time   `json:"generatedAt"`
	Cluster     string      `json:"cluster,omitempty"` // as the kubeconfig names it
	Nodes       int         `json:"nodes"`             // that exist
	Summary     *Summary    `json:"summary,omitempty"`
	Compliance  *Compliance `json:"compliance,omitempty"`
	Drift       *Drift      `json:"drift,omitempty"`
	Usage       *Usage      `json:"usage,omitempty"`
	Cost        *Cost       `json:"cost,omitempty"`
}

// section is a part of a report, with its name and its title on the page.
type section struct {
	name, title string
	contents
}

// contents makes tables and charts of its own fields.
type contents interface {
	tables() []Table
	charts() []chart
}

// sections returns those that were asked for, in their order.
func (r Report) sections() (all []section) {
	add := func(asked bool, name, title string, body contents) {
		if asked {
			all = append(all, section{name, title, body})
		}
	}
	add(r.Summary != nil, SummarySection, "Summary", r.Summary)
	add(r.Compliance != nil, ComplianceSection, "Compliance", r.Compliance)
	add(r.Drift != nil, DriftSection, "Drift", r.Drift)
	add(r.Usage != nil, UsageSection, "Usage", r.Usage)
	add(r.Cost != nil, CostSection, "Node-hours", r.Cost)
	return all
}

// Tables returns those of all sections, in their order.
func (r Report) Tables() (tables []Table) {
	for _, section := range r.sections() {
		for _, table := range section.tables() {
			table.Section = section.name
			tables = append(tables, table)
		}
	}
	return tables
}

// Count is a number of Nodes with a value of a label.
type Count struct {
	Value string `json:"value"`
	Nodes int    `json:"nodes"`
}

// NoLabel stands for the value where a Node does not have the label. No label can have this value.
const NoLabel = "(no label)"

// addFirst adds a name to those that stand for many.
func addFirst(first *[]string, name string) {
	if len(*first) < maxFirst && !slices.Contains(*first, name) {
		*first = append(*first, name)
	}
}

func byNodes(a, b Count) int {
	return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Value, b.Value))
}

// shortened returns a text of at most maxText characters.
func shortened(text string) string {
	pos := 0
	for i := range text {
		if pos == maxText {
			return text[:i] + "..."
		}
		pos++
	}
	return text
}
