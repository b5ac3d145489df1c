package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

const (
	shownOfMany   = 20   // lines of a long plan that are shown before a question
	progressEvery = 5000 // records
)

// pruneOptions are the flags of `prune`.
type pruneOptions struct {
	*options
	olderThan string
	retention time.Duration // as olderThan says
	limit     int
	dryRun    bool
}

const pruneLong = `Prune removes the records of Nodes that were deleted longer ago than DURATION. It also removes records that
hold nothing any more, two minutes after their Node was deleted. Capture does this by itself once the policy's
retention is over, by the same decision. Records of live Nodes stay, and so do those that wait for a decision between
two machines.

Each record is removed only as it was read. Right before, the API server must have said that there is no such Node. If
the Node registers in that very moment, its record is put back. The first error ends it.`

const pruneExamples = `
	# What would be removed
	nodekeep prune --older-than 720h --dry-run

	# Remove it, the oldest 1000 at most
	nodekeep prune --older-than 720h --at-most 1000 --yes`

func newPruneCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &pruneOptions{options: newOptions(streams)}
	command := o.task(&cobra.Command{
		Use:     "prune --older-than DURATION [flags]",
		Short:   "Remove records of Nodes that have been deleted for long",
		Long:    pruneLong,
		Example: pruneExamples,
		GroupID: groupAct,
	}, asks, o)
	flags := command.Flags()
	flags.StringVar(&o.olderThan, "older-than", "", "how long ago Nodes must have been deleted, such as 720h; 10m at least")
	flags.IntVar(&o.limit, "at-most", 0, "how many records are removed at most, the oldest first; 0 for all")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only show what would be removed")
	return command
}

func (o *pruneOptions) validate() error {
	var wrong string
	o.retention, wrong = policy.ParseRetention(o.olderThan)
	switch {
	case o.olderThan == "":
		return errors.New("--older-than says for how long Nodes must have been deleted, such as 720h")
	case wrong != "":
		return fmt.Errorf("--older-than %q: %s", o.olderThan, wrong)
	case o.retention == 0:
		return errors.New("--older-than 0 keeps all records for ever: there is nothing to remove")
	case o.limit < 0:
		return fmt.Errorf("--at-most %d: must not be negative", o.limit)
	}
	return nil
}

func (o *pruneOptions) rights(c *session, _ []string) []doctor.Right {
	needed := []doctor.Right{c.RecordsRight("list")}
	if !o.dryRun {
		needed = append(needed, c.NodesRight("get"), c.RecordsRight("get"), c.RecordsRight("delete"), c.RecordsRight("create"))
	}
	return needed
}

func (o *pruneOptions) run(ctx context.Context, c *session, _ []string) error {
	plan := &view.Pruning{Retention: o.retention, Now: c.Now()}
	for listed, err := range c.ListRecords(ctx) {
		if err != nil {
			return err
		}
		if listed.Err == nil {
			plan.Add(listed.Entry.Record)
		}
	}
	plan.SortAndLimit(o.limit)
	printer := (&output{}).tablePrinter()
	switch {
	case len(plan.Due) == 0:
		c.say("%s", plan.Summary())
		return nil
	case o.dryRun:
		c.say("%s; nothing was changed (dry run)", plan.Summary())
		return printer.PrintObj(plan.Table(0), c.Out)
	case !o.yes:
		if err := printer.PrintObj(plan.Table(shownOfMany), c.ErrOut); err != nil {
			return err
		}
		if omitted := len(plan.Due) - shownOfMany; omitted > 0 {
			c.say("... and %d more; --dry-run shows all", omitted)
		}
		c.say("%s", plan.Summary())
	}
	if err := o.ask(ctx, c, fmt.Sprintf("Remove %d of %d records?", len(plan.Due), plan.All)); err != nil {
		return err
	}
	return c.prune(ctx, plan)
}

// prune removes due records, and reports how many.
func (c *session) prune(ctx context.Context, plan *view.Pruning) error {
	outcomes, tried := map[gc.Outcome]int{}, 0
	err := changeEach(ctx, plan.Due, func(due view.DueRecord) (gc.Outcome, error) {
		step, cancel := withoutInterrupt(ctx)
		defer cancel()
		return gc.Remover{Records: c.Records, Client: c.Client}.Collect(step, due.Node, plan.IsDue)
	}, func(outcome gc.Outcome, _ error) {
		outcomes[outcome]++
		if tried++; tried%progressEvery == 0 {
			c.say("%d of %d records", tried, len(plan.Due))
		}
	})
	removed, all := outcomes[gc.Collected], len(plan.Due)
	switch {
	case err != nil && removed == 0:
		return fmt.Errorf("nothing was removed: %w", c.CallError(c.RecordsRight("delete"), err))
	case err != nil:
		return findings(fmt.Errorf("%d of %d records were removed, then: %w\n  to remove the remaining records, run it again", removed, all, c.CallError(c.RecordsRight("delete"), err)))
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
