package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"nodekeep.dev/nodekeep/cli/view"
)

// linesAtOnce is how many lines of a list are printed together, and so share the widths of their columns.
const linesAtOnce = pageSize

// listOptions are the flags of `list`.
type listOptions struct {
	*connection
	output
	policy   policySource
	selector string
	gone     bool
	stale    bool
	watching bool
}

func newListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &listOptions{connection: newConnection(streams), output: output{names: true}}
	command := newCommand(&cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "Every Node and every record: what is kept, and whether anything is left to do",
		Long: `List shows every Node and every record, one line for each name.

STATUS is Present (a Node and its record), Unrecorded (a Node without one), Gone (a record whose Node is gone) or Unreadable
(a record from which nothing may be taken). SINCE is how old the Node is, or for how long it has been gone. LABELS and TAINTS
count what is remembered. GATED says whether the Node waits behind the gate, LAST CHANGE when somebody last changed what is
remembered. CURRENT says what capture has still to do about the Node, which usually takes it moments.`,
		Example: `
			# Everything
			nodekeep list

			# Nodes that are gone and are still remembered
			nodekeep list --gone

			# Nodes of a pool about which something is left to do
			nodekeep list --stale -l dedicated=ci

			# For scripts
			nodekeep list -o jsonpath='{range .items[*]}{.name}{"\t"}{.status}{"\n"}{end}'`,
		GroupID: groupSee,
		Args:    none,
	}, o.connection, o.run)
	o.addTo(command)
	return command
}

func (o *listOptions) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "label selector; a Node that is gone is selected by what it is remembered with")
	flags.BoolVar(&o.gone, "gone", false, "only Nodes that are gone")
	flags.BoolVar(&o.stale, "stale", false, "only Nodes about which something is left to do")
	flags.BoolVarP(&o.watching, "watch", "w", false, "go on with a line for each Node whose line has changed; the policy is that of the start")
	o.output.addTo(command)
	o.policy.addTo(command)
}

func (o *listOptions) run(ctx context.Context, _ []string) error {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return usage(fmt.Errorf("--selector: %w", err))
	}
	if err := o.check(); err != nil {
		return err
	}
	c, err := o.open()
	if err != nil {
		return err
	}
	in, err := c.circumstances(ctx, &o.policy)
	if err != nil {
		return err
	}
	want := func(state view.NodeState, summary view.Summary) bool {
		return state.Selected(selector) && (!o.gone || summary.Status == view.Gone) && (!o.stale || !summary.Current)
	}
	if o.watching {
		return o.watch(ctx, c, in, want)
	}
	lines := lines{output: &o.output, cluster: c, now: in.Now}
	for state, err := range c.allStates(ctx) {
		if err != nil {
			return lines.broken(err)
		}
		summary := view.SummaryOf(state, in)
		if want(state, summary) {
			if err := lines.add(summary); err != nil {
				return err
			}
		}
	}
	return lines.end()
}

// lines prints the lines of a list while it is read, as far as the format allows: -o json is one object.
type lines struct {
	output  *output
	cluster *cluster
	now     time.Time
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
		return l.print()
	}
	return nil
}

func (l *lines) print() error {
	if l.printer == nil {
		l.printer, l.tabs = l.output.tablePrinter(), printers.GetNewTabWriter(l.cluster.Out)
	}
	table := view.SummaryTable(l.waiting, l.now)
	l.printed += len(l.waiting)
	l.waiting = nil
	if err := l.printer.PrintObj(table, l.tabs); err != nil {
		return err
	}
	return l.tabs.Flush()
}

// broken ends a list that could not be read to its end; who has seen a part of it is told so.
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
		return l.print()
	case l.output.format == "name":
		var names []string
		for _, summary := range l.waiting {
			names = append(names, summary.Name)
		}
		return l.output.nodeNames(l.cluster.Out, names)
	default:
		items := l.waiting
		if items == nil {
			items = []view.Summary{}
		}
		return l.output.object(l.cluster.Out, "NodeSummaryList", struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []view.Summary  `json:"items"`
		}{Items: items})
	}
}
