package cli

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
)

const (
	maxShownRows      = 20   // lines of a long plan that are shown before a question
	recordsPerMessage = 5000 // how many records are tried between two messages
)

func (o *forgetOptions) oldRights(c *session) []doctor.Right {
	needed := []doctor.Right{c.RecordsRight("list")}
	if !o.dryRun {
		needed = append(needed, c.NodesRight("get"), c.RecordsRight("get"), c.RecordsRight("delete"), c.RecordsRight("create"))
	}
	return needed
}

// forgetOld removes the records of Nodes that were deleted long ago.
func (o *forgetOptions) forgetOld(ctx context.Context, c *session) error {
	plan := &view.ForgetOldPlan{Retention: o.retention, Now: c.Now()}
	for listed, err := range c.ListRecords(ctx) {
		if err != nil {
			return err
		}
		if listed.Err == nil {
			plan.Add(listed.Entry.Record)
		}
	}
	plan.SortAndLimit(o.limit)
	if len(plan.Due) == 0 {
		c.say("%s.", plan.Summary())
		return nil
	}
	proceed, err := o.confirm(ctx, c, &proposal{
		document: view.Document{Tables: []*metav1.Table{plan.Table()}}, long: true, summary: plan.Summary() + ".",
		question: fmt.Sprintf("Remove %d of %d records?", len(plan.Due), plan.Records),
	})
	if err != nil || !proceed {
		return err
	}
	return c.forgetDue(ctx, plan)
}

// forgetDue removes due records, and reports how many.
func (c *session) forgetDue(ctx context.Context, plan *view.ForgetOldPlan) error {
	outcomes, tried := map[gc.Outcome]int{}, 0
	err := changeInParallel(ctx, plan.Due, func(due view.DueRecord) (gc.Outcome, error) {
		step, cancel := withoutInterrupt(ctx)
		defer cancel()
		return gc.Remover{Records: c.Records, Client: c.Client}.Collect(step, due.Node, plan.IsDue)
	}, func(outcome gc.Outcome, _ error) {
		outcomes[outcome]++
		if tried++; tried%recordsPerMessage == 0 {
			c.say("%d of %d records", tried, len(plan.Due))
		}
	})
	removed, all := outcomes[gc.Collected], len(plan.Due)
	switch {
	case err != nil && removed == 0:
		return fmt.Errorf("nothing was removed: %w", c.ExplainError(c.RecordsRight("delete"), err))
	case err != nil:
		return asFindings(fmt.Errorf("%d of %d records were removed, then: %w\n  to remove the remaining records, run it again", removed, all, c.ExplainError(c.RecordsRight("delete"), err)))
	case tried < all:
		return exitError{exitInterrupted, fmt.Errorf("interrupted: %d of %d records were removed; run it again for the rest", removed, all)}
	}
	report := view.Counted(removed, "record") + " removed"
	if kept := outcomes[gc.Kept]; kept > 0 {
		report += fmt.Sprintf("; %d kept, which have changed or whose Nodes are back", kept)
	}
	if putBack := outcomes[gc.PutBack]; putBack > 0 {
		report += fmt.Sprintf("; %d put back, since their Nodes registered in that very moment", putBack)
	}
	return c.printResult("%s", report)
}
