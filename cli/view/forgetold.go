package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/record"
)

// ForgetOldPlan is which records are no longer kept.
type ForgetOldPlan struct {
	Retention time.Duration
	Now       time.Time

	Records         int // records
	Gone            int // those of deleted Nodes
	Undecided       int // those of them that wait for an operator's decision
	DeletedInFuture int // those of them whose Nodes were deleted at a time in the future
	Due             []DueRecord
}

// DueRecord is a record that is no longer kept.
type DueRecord struct {
	Node           string
	DeletedAt      time.Time // when its Node was deleted
	Labels, Taints int
}

// Add looks at a record.
func (p *ForgetOldPlan) Add(r record.Record) {
	p.Records++
	if r.DeletedAt.IsZero() {
		return
	}
	p.Gone++
	switch {
	case p.IsDue(r):
		labels, taints := record.Split(r.Items())
		p.Due = append(p.Due, DueRecord{r.Node, r.DeletedAt, len(labels), len(taints)})
	case r.Quarantined != nil:
		p.Undecided++
	case r.DeletedAt.After(p.Now):
		p.DeletedInFuture++
	}
}

// IsDue reports whether a record is no longer kept, by the same decision as capture's.
func (p *ForgetOldPlan) IsDue(r record.Record) bool { return gc.Due(r, p.Retention, p.Now) }

// SortAndLimit sorts the due records by when their Nodes were deleted, and leaves out those beyond limit (0: none).
func (p *ForgetOldPlan) SortAndLimit(limit int) {
	slices.SortFunc(p.Due, func(a, b DueRecord) int { return cmp.Or(a.DeletedAt.Compare(b.DeletedAt), cmp.Compare(a.Node, b.Node)) })
	if limit > 0 {
		p.Due = p.Due[:min(limit, len(p.Due))]
	}
}

// Summary returns the result in a sentence.
func (p *ForgetOldPlan) Summary() string {
	parts := []string{fmt.Sprintf("%s, %d of deleted Nodes, %d to be removed", Counted(p.Records, "record"), p.Gone, len(p.Due))}
	if p.Undecided > 0 {
		parts = append(parts, fmt.Sprintf("%d stay until an operator decides between two machines (nodekeep accept record)", p.Undecided))
	}
	if p.DeletedInFuture > 0 {
		parts = append(parts, fmt.Sprintf("%d stay although their Nodes were deleted at a time in the future: the clock here is slow, or another was fast", p.DeletedInFuture))
	}
	return strings.Join(parts, "; ")
}

// Table lists the records that go.
func (p *ForgetOldPlan) Table() *metav1.Table {
	table := tableOf("Name", "Gone", "Labels", "Taints")
	for _, due := range p.Due {
		addRow(table, due.Node, age(due.DeletedAt, p.Now), due.Labels, due.Taints)
	}
	return table
}
