package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

// shownOfMany is how many lines of a long plan are shown before a question.
const shownOfMany = 20

// pruneOptions are the flags of `prune`.
type pruneOptions struct {
	*connection
	confirmation
	olderThan string
	atMost    int
	dryRun    bool
}

func newPruneCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &pruneOptions{connection: newConnection(streams)}
	command := newCommand(&cobra.Command{
		Use:   "prune --older-than DURATION [flags]",
		Short: "Remove records of Nodes that have been gone for long",
		Long: `Prune removes the records of Nodes that have been gone for longer than DURATION, and those that hold nothing any more two
minutes after their Node went: what capture does by itself once the policy's retention is over, by the same decision. Records
of live Nodes stay, and so do those that wait for a decision between two machines.

Each record is removed only as it was read, and only after the API server has just said that there is no such Node; should the
Node register in that very moment, its record is put back. The first error ends it.`,
		Example: `
			# What would go
			nodekeep prune --older-than 720h --dry-run

			# Remove it, the oldest 1000 at most
			nodekeep prune --older-than 720h --at-most 1000 --yes`,
		GroupID: groupAct,
		Args:    none,
	}, o.connection, o.run)
	flags := command.Flags()
	flags.StringVar(&o.olderThan, "older-than", "", "for how long Nodes must have been gone, such as 720h; 10m at least")
	flags.IntVar(&o.atMost, "at-most", 0, "how many records are removed at most, the oldest first; 0 for all")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only show what would be removed")
	o.confirmation.addTo(flags)
	return command
}

func (o *pruneOptions) run(ctx context.Context, _ []string) error {
	retention, wrong := policy.ParseRetention(o.olderThan)
	switch {
	case o.olderThan == "":
		return usage(errors.New("--older-than says for how long Nodes must have been gone, such as 720h"))
	case wrong != "":
		return usage(fmt.Errorf("--older-than %q: %s", o.olderThan, wrong))
	case retention == 0:
		return usage(errors.New("--older-than 0 keeps all records for ever: there is nothing to remove"))
	case o.atMost < 0:
		return usage(fmt.Errorf("--at-most %d: must not be negative", o.atMost))
	}
	c, err := o.open()
	if err != nil {
		return err
	}
	plan := &view.Pruning{Retention: retention, Now: c.now()}
	if err := c.findDue(ctx, plan); err != nil {
		return err
	}
	plan.Oldest(o.atMost)
	if o.dryRun || len(plan.Due) == 0 {
		c.say("%s", plan.Summary())
		if len(plan.Due) == 0 {
			return nil
		}
		return (&output{format: formatTable}).tablePrinter().PrintObj(plan.Table(0), c.Out)
	}
	if !o.yes {
		if err := c.showPruning(plan); err != nil {
			return err
		}
		if err := o.ask(ctx, c.IOStreams, fmt.Sprintf("Remove %d of %d records?", len(plan.Due), plan.All)); err != nil {
			return err
		}
	}
	return c.prune(ctx, plan)
}

func (c *cluster) showPruning(plan *view.Pruning) error {
	if err := (&output{format: formatTable}).tablePrinter().PrintObj(plan.Table(shownOfMany), c.ErrOut); err != nil {
		return err
	}
	if more := len(plan.Due) - shownOfMany; more > 0 {
		c.say("... and %d more; --dry-run shows all", more)
	}
	c.say("%s", plan.Summary())
	return nil
}

func (c *cluster) findDue(ctx context.Context, plan *view.Pruning) error {
	bar := newProgress(c.ErrOut, unknown, "records read")
	defer bar.end()
	for listed, err := range c.allRecords(ctx) {
		if err != nil {
			return err
		}
		bar.add(1)
		if listed.Err == nil {
			plan.Add(listed.Entry.Record)
		}
	}
	return nil
}

// prune removes what is due, a few records at a time.
func (c *cluster) prune(ctx context.Context, plan *view.Pruning) error {
	var mu sync.Mutex
	outcomes := map[gc.Outcome]int{}
	bar := newProgress(c.ErrOut, int64(len(plan.Due)), "records removed")
	err := forEach(ctx, plan.Due, func(ctx context.Context, due view.DueRecord) error {
		outcome, err := gc.Collect(ctx, c.records, c.client, gc.Removal{Records: c.records, Client: c.client}, due.Node, plan.IsDue)
		mu.Lock()
		defer mu.Unlock()
		outcomes[outcome]++
		bar.add(1)
		return err
	})
	bar.end()
	removed, left := outcomes[gc.Collected], len(plan.Due)-outcomes[gc.Collected]-outcomes[gc.Kept]-outcomes[gc.PutBack]
	switch {
	case err != nil && removed == 0:
		return fmt.Errorf("nothing was removed: %w", c.failed(c.toRecords("delete"), err))
	case err != nil:
		return findings(fmt.Errorf("%d of %d records were removed, then: %w\n  run it again for the rest", removed, len(plan.Due), c.failed(c.toRecords("delete"), err)))
	case left > 0:
		return exitError{exitInterrupted, fmt.Errorf("interrupted: %d of %d records were removed; run it again for the rest", removed, len(plan.Due))}
	}
	told := []string{view.Counted(removed, "record") + " removed"}
	if kept := outcomes[gc.Kept]; kept > 0 {
		told = append(told, fmt.Sprintf("%d kept, which have changed or whose Nodes are back", kept))
	}
	if back := outcomes[gc.PutBack]; back > 0 {
		told = append(told, fmt.Sprintf("%d put back, since their Nodes registered in that very moment", back))
	}
	_, err = fmt.Fprintln(c.Out, strings.Join(told, "; "))
	return err
}
