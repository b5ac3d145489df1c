package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
)

// What Nodes can wait for, as --waiting names it.
const (
	waitingGate         = "gate"
	waitingVerification = "verification"
	waitingQuarantine   = "quarantine"
	waitingStale        = "stale"
)

func waitingKinds() []string {
	return []string{waitingGate, waitingVerification, waitingQuarantine, waitingStale}
}

// listOptions are the flags of `list`.
type listOptions struct {
	*options
	namespace            checksNamespace
	waiting              string
	selectorText         string
	selector             labels.Selector
	gone, live, watching bool
	everyNode            bool
}

const listLong = `List shows every Node and every record, one line for each name. With --waiting it shows those that wait:

  gate           Nodes behind the gate, which keeps workloads off while something is missing that they should have
  verification   Nodes that wait until they are checked
  quarantine     Nodes that wait for an operator's decision between two machines (nodekeep accept record)
  stale          Nodes for which capture has something left to record or to restore

STATUS is one of these:

  Present      a Node and its record; there is no record if nothing of the Node is kept
  Unrecorded   a Node that capture has still to record
  Gone         a record whose Node is deleted
  Unreadable   a record that cannot be used
  Forgotten    neither the Node nor the record exists any more (only with --watch)

SINCE is how old the Node is, or how long ago it was deleted. LABELS and TAINTS count what the record has. GATED says
whether the Node waits behind the gate, or is unverified and waits for its checks. LAST CHANGE is when the record last
changed. CURRENT says what capture has still to do about the Node, which usually takes it moments. With -o wide, CHANGED
BY is the client that changed the record last. NOT SHOWN counts recorded values that the Node does not show, and RULE
LABELS the labels that rules set last.

` + waitingGateHelp + `

` + waitingVerificationHelp

const listExamples = `
	# Everything
	nodekeep list

	# Nodes that are deleted and still have a record
	nodekeep list --gone

	# Nodes that exist
	nodekeep list --live

	# Which Nodes wait behind the gate, and what to do about it
	nodekeep list --waiting gate

	# Which Nodes wait to be checked, with the last results
	nodekeep list --waiting verification -o wide

	# Nodes of a pool about which something is left to do
	nodekeep list --waiting stale -l dedicated=ci

	# How many Nodes wait for an operator's decision
	nodekeep list --waiting quarantine --no-headers | wc -l

	# For scripts
	nodekeep list -o jsonpath='{range .items[*]}{.name}{"\t"}{.status}{"\n"}{end}'`

func newListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &listOptions{options: newOptions(streams)}
	o.nameFormat = true
	command := o.finishWithMethods(&cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "Every Node and every record; with --waiting, those that wait, for what, and what to do",
		Long:    listLong,
		Example: listExamples,
		GroupID: groupSee,
	}, hasOutput|hasPolicy, o)
	flags := command.Flags()
	addChoiceFlag(command, &o.waiting, "waiting", "only Nodes that wait, and for what: one of "+strings.Join(waitingKinds(), ", "), waitingKinds()...)
	flags.StringVarP(&o.selectorText, "selector", "l", "", "label selector; a Node that is deleted is selected by its recorded labels")
	flags.BoolVar(&o.gone, "gone", false, "only Nodes that are deleted")
	flags.BoolVar(&o.live, "live", false, "only Nodes that exist")
	flags.BoolVarP(&o.everyNode, "all", "a", false, "with --waiting verification, also Nodes that are open")
	flags.BoolVarP(&o.watching, "watch", "w", false, "keep watching, and print a Node again when its line changes; changes of the policy are not noticed")
	o.namespace.addFlags(command)
	return command
}

func (o *listOptions) validate() (err error) {
	ownTable := o.waiting == waitingGate || o.waiting == waitingVerification
	switch {
	case o.waiting != "" && !slices.Contains(waitingKinds(), o.waiting):
		return fmt.Errorf("--waiting %q: must be one of %s", o.waiting, strings.Join(waitingKinds(), ", "))
	case o.gone && o.live:
		return errors.New("--gone and --live exclude each other")
	case ownTable && (o.gone || o.live || o.watching):
		return fmt.Errorf("--gone, --live and --watch do not go with --waiting %s", o.waiting)
	case o.everyNode && o.waiting != waitingVerification:
		return errors.New("--all goes with --waiting " + waitingVerification)
	}
	if o.selector, err = labels.Parse(o.selectorText); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return errors.Join(o.namespace.validate(), o.namespace.onlyWith("--waiting "+waitingVerification, o.waiting == waitingVerification))
}

func (o *listOptions) rights(c *session, _ []string) []doctor.Right {
	switch {
	case o.waiting == waitingVerification:
		return []doctor.Right{c.NodesRight("list")}
	case o.watching:
		return append(c.allNodesRights("list"), c.allNodesRights("watch")...)
	}
	return c.allNodesRights("list")
}

func (o *listOptions) run(ctx context.Context, c *session, _ []string) error {
	switch o.waiting {
	case waitingGate:
		return o.listGated(ctx, c)
	case waitingVerification:
		return o.listUnverified(ctx, c)
	}
	lines := &lines{output: &o.output, session: c, emptyText: "Nothing to show: no such Node and no such record in namespace " + c.Namespace + ".", filter: o.isShown}
	seen := 0
	if o.watching {
		return c.watch(ctx, lines)
	}
	for state, err := range c.ListStates(ctx) {
		if err != nil {
			return lines.incomplete(err)
		}
		seen++
		if summary := view.SummaryOf(state, c.inputs); lines.filter(state, summary) {
			lines.add(summary)
		}
	}
	switch unfiltered := seen > 0 && !o.gone && !o.live && o.selectorText == ""; {
	case unfiltered && o.waiting == waitingStale:
		lines.emptyText = "Nothing to do: all that is kept of the Nodes is recorded and restored."
	case unfiltered && o.waiting == waitingQuarantine:
		lines.emptyText = "Nothing to decide: no Node waits for a decision between two machines."
	}
	return lines.end()
}

// isShown reports whether a Node is to be shown.
func (o *listOptions) isShown(state nodestate.State, summary view.Summary) bool {
	switch {
	case !state.Selected(o.selector), o.gone && summary.Status != nodestate.Gone, o.live && state.Node == nil:
		return false
	case o.waiting == waitingStale:
		return !summary.Current
	case o.waiting == waitingQuarantine:
		return state.AwaitsDecision()
	}
	return true
}

// lines prints the lines of a list while it is read, if the format allows that. It cannot for -o json, which is one object.
type lines struct {
	output    *output
	session   *session
	filter    func(nodestate.State, view.Summary) bool
	emptyText string // what to say where there is no line
	printer   printers.ResourcePrinter
	tabs      interface { // remembers the widths of columns
		io.Writer
		Flush() error
	}
	buffered []view.Summary
}

func (l *lines) add(summary view.Summary) {
	l.buffered = append(l.buffered, summary)
}

// flush prints the lines that wait, with columns as wide as their widest cell.
func (l *lines) flush() error {
	if len(l.buffered) == 0 {
		return nil
	}
	if l.printer == nil {
		l.printer, l.tabs = l.output.tablePrinter(), printers.GetNewTabWriter(l.session.Out)
	}
	table := view.SummaryList{Items: l.buffered}.Table(l.session.Now())
	l.buffered = nil
	if err := l.printer.PrintObj(table, l.tabs); err != nil {
		return err
	}
	return l.tabs.Flush()
}

// incomplete ends a list that could not be read to its end: a table has the part that was read.
func (l *lines) incomplete(err error) error {
	printed := len(l.buffered)
	if !l.output.isText() || printed == 0 {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	incomplete := fmt.Errorf("the list is not complete: it ends after %d lines: %w", printed, err)
	if errors.Is(err, context.Canceled) {
		return exitError{exitInterrupted, incomplete}
	}
	return asFindings(incomplete)
}

func (l *lines) end() error {
	switch {
	case l.output.isText() && len(l.buffered) == 0:
		l.session.say("%s", l.emptyText)
		return nil
	case l.output.isText():
		return l.flush()
	default:
		return l.output.write(l.session, "NodeSummaryList", view.SummaryList{Items: append([]view.Summary{}, l.buffered...)})
	}
}

// print prints a line of a watch. A row of a table is buffered until flush; other formats print at once.
func (l *lines) print(summary view.Summary) error {
	switch {
	case l.output.isText():
		l.add(summary)
		return nil
	case l.output.format == "name":
		return l.output.printNodeNames(l.session.Out, summary.Name)
	default:
		return l.output.writeObject(l.session.Out, "NodeSummary", summary)
	}
}
