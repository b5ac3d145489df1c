package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"nodekeep.dev/nodekeep/cli/view"
)

// linesAtOnce is how many lines of a list are printed together, and so share the widths of their columns.
const linesAtOnce = 500

func newListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.names = true
	var (
		selects               string
		selector              labels.Selector
		gone, stale, watching bool
	)
	command := o.command(&cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "Every Node and every record: what is kept, and whether anything is left to do",
		Long: `List shows every Node and every record, one line for each name.

STATUS is Present (a Node and its record), Unrecorded (a Node without one), Gone (a record whose Node is deleted) or Unreadable
(a record that cannot be used). SINCE is how old the Node is, or how long ago it was deleted. LABELS and TAINTS count what is
remembered. GATED says whether the Node waits behind the gate, LAST CHANGE when the record last changed. CURRENT says what
capture has still to do about the Node, which usually takes it moments.`,
		Example: `
			# Everything
			nodekeep list

			# Nodes that are deleted and still remembered
			nodekeep list --gone

			# Nodes of a pool about which something is left to do
			nodekeep list --stale -l dedicated=ci

			# For scripts
			nodekeep list -o jsonpath='{range .items[*]}{.name}{"\t"}{.status}{"\n"}{end}'`,
		GroupID: groupSee,
		Args:    none,
	}, prints|decides, func(ctx context.Context, c *cluster, _ []string) error {
		lines := &lines{output: &o.output, cluster: c, want: func(state view.NodeState, summary view.Summary) bool {
			return state.Selected(selector) && (!gone || summary.Status == view.Gone) && (!stale || !summary.Current)
		}}
		if watching {
			return c.watch(ctx, lines)
		}
		for state, err := range c.allStates(ctx) {
			if err != nil {
				return lines.broken(err)
			}
			if summary := view.SummaryOf(state, c.in); lines.want(state, summary) {
				if err := lines.add(summary); err != nil {
					return err
				}
			}
		}
		return lines.end()
	})
	flags := command.Flags()
	flags.StringVarP(&selects, "selector", "l", "", "label selector; a Node that is deleted is selected by its recorded labels")
	flags.BoolVar(&gone, "gone", false, "only Nodes that are deleted")
	flags.BoolVar(&stale, "stale", false, "only Nodes about which something is left to do")
	flags.BoolVarP(&watching, "watch", "w", false, "go on with a line for each Node whose line has changed; the policy is that of the start")
	o.validate = func() (err error) {
		if selector, err = labels.Parse(selects); err != nil {
			return fmt.Errorf("--selector: %w", err)
		}
		return nil
	}
	return command
}

// lines prints the lines of a list while it is read, as far as the format allows: -o json is one object.
type lines struct {
	output  *output
	cluster *cluster
	want    func(view.NodeState, view.Summary) bool
	printer printers.ResourcePrinter
	tabs    interface { // remembers the widths of columns
		io.Writer
		Flush() error
	}
	waiting []view.Summary
	printed int
}

func (l *lines) add(summary view.Summary) error {
	l.waiting = append(l.waiting, summary)
	if l.output.table() && len(l.waiting) == linesAtOnce {
		return l.flush()
	}
	return nil
}

func (l *lines) flush() error {
	if len(l.waiting) == 0 {
		return nil
	}
	if l.printer == nil {
		l.printer, l.tabs = l.output.tablePrinter(), printers.GetNewTabWriter(l.cluster.Out)
	}
	table := view.SummaryList{Items: l.waiting}.Table(l.cluster.now())
	l.printed += len(l.waiting)
	l.waiting = nil
	if err := l.printer.PrintObj(table, l.tabs); err != nil {
		return err
	}
	return l.tabs.Flush()
}

// broken ends a list that could not be read to its end. Its reader may have seen a part of it.
func (l *lines) broken(err error) error {
	if l.printed == 0 {
		return err
	}
	incomplete := fmt.Errorf("the list is not complete: it ends after %d lines: %w", l.printed, err)
	if errors.Is(err, context.Canceled) {
		return exitError{exitInterrupted, incomplete}
	}
	return findings(incomplete)
}

func (l *lines) end() error {
	switch {
	case l.output.table() && len(l.waiting)+l.printed == 0:
		l.cluster.say("Nothing to show: no such Node and no such record in namespace %s.", l.cluster.namespace)
		return nil
	case l.output.table():
		return l.flush()
	default:
		return l.output.write(l.cluster, "NodeSummaryList", view.SummaryList{Items: append([]view.Summary{}, l.waiting...)})
	}
}

// one prints a line of a watch: in a table together with others that wait, else at once.
func (l *lines) one(summary view.Summary) error {
	switch {
	case l.output.table():
		return l.add(summary)
	case l.output.format == "name":
		return l.output.nodeNames(l.cluster.Out, summary.Name)
	default:
		return l.output.object(l.cluster.Out, "NodeSummary", summary)
	}
}
