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

// Pruning is which records are no longer kept.
type Pruning struct {
	Retention time.Duration
	Now       time.Time

	All       int // records
	Gone      int // those of deleted Nodes
	Undecided int // those of them that wait for an operator's decision
	Ahead     int // those of them whose Nodes went in the future
	Due       []DueRecord
}

// DueRecord is a record that is no longer kept.
type DueRecord struct {
	Node           string
	Gone           time.Time // since when its Node is
	Labels, Taints int
}

// Add looks at a record.
func (p *Pruning) Add(r record.Record) {
	p.All++
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
		p.Ahead++
	}
}

// IsDue reports whether a record is no longer kept, by the same decision as capture's.
func (p *Pruning) IsDue(r record.Record) bool { return gc.Due(r, p.Retention, p.Now) }

// Oldest puts those first whose Nodes went first, and leaves out what is beyond a number (0: nothing).
func (p *Pruning) Oldest(limit int) {
	slices.SortFunc(p.Due, func(a, b DueRecord) int { return cmp.Or(a.Gone.Compare(b.Gone), cmp.Compare(a.Node, b.Node)) })
	if limit > 0 {
		p.Due = p.Due[:min(limit, len(p.Due))]
	}
}

// Summary returns the result in a sentence.
func (p *Pruning) Summary() string {
	parts := []string{fmt.Sprintf("%s, %d of deleted Nodes, %d to be removed", Counted(p.All, "record"), p.Gone, len(p.Due))}
	if p.Undecided > 0 {
		parts = append(parts, fmt.Sprintf("%d stay until an operator decides between two machines (nodekeep accept)", p.Undecided))
	}
	if p.Ahead > 0 {
		parts = append(parts, fmt.Sprintf("%d stay although their Nodes were deleted at a time in the future: the clock here is slow, or another was fast", p.Ahead))
	}
	return strings.Join(parts, "; ")
}

// Table lists the records that go, the first of them where there are more than that (0: all).
func (p *Pruning) Table(first int) *metav1.Table {
	table := tableOf("Name", "Gone", "Labels", "Taints")
	for i, due := range p.Due {
		if first > 0 && i == first {
			break
		}
		add(table, due.Node, age(due.Gone, p.Now), due.Labels, due.Taints)
	}
	return table
}
