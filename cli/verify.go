package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/verify"
)

// Field managers of the commands.
const (
	runManager     = "nodekeep-verify-run"
	releaseManager = "nodekeep-verify-release"
)

// verifyName is the name of the controller's command, too.
const verifyName = "verify"

// addVerify adds the commands about verification below the controller's command. A program without that command gets one of their own.
func addVerify(root *cobra.Command, streams genericiooptions.IOStreams) {
	below := []*cobra.Command{newVerifyListCommand(streams), newVerifyShowCommand(streams), newVerifyRunCommand(streams), newVerifyReleaseCommand(streams)}
	for _, command := range root.Commands() {
		if command.Name() == verifyName {
			command.AddCommand(below...)
			command.Args = func(command *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usage(fmt.Errorf("unknown command %q for %q; --help lists what there is", args[0], command.CommandPath()))
				}
				return nil
			}
			writeExamples(root.DisplayName(), command)
			return
		}
	}
	command := newGroupCommand(&cobra.Command{Use: verifyName + " COMMAND", Short: "Nodes that wait until they are checked: see, check again, release", GroupID: groupAct}, below...)
	root.AddCommand(command)
	writeExamples(root.DisplayName(), command)
}

// checksNamespace is where worker Pods run and reports are kept.
type checksNamespace string

func (n *checksNamespace) addTo(command *cobra.Command) {
	command.Flags().StringVar((*string)(n), "checks-namespace", verify.Namespace, "the namespace of worker Pods and reports")
}

func (n *checksNamespace) validate() error { return checkNamespace("--checks-namespace", string(*n)) }

// verifyListOptions are the flags of `verify list`.
type verifyListOptions struct {
	*options
	namespace    checksNamespace
	selectorText string
	selector     labels.Selector
	everyNode    bool
}

const verifyListLong = `List shows the Nodes that have a taint of verification, and those that wait to be checked again. It also shows open
Nodes whose checks fail (mode report). With --all it adds all other open Nodes that a profile selects.

Where a profile removes Nodes that fail, lines above the table say which Node was removed last. They also say which
brake holds every removal at the moment. REMOVAL says why a Node is not removed.

If no verification controller leads, a line says so: no Node is checked then.

A profile is proved once its checks have passed on a Node, or in a trial on an open Node. A line above the table names
each profile that selects Nodes and is not proved yet.

STATE is one of these:

  waiting    not tried yet
  checking   a worker Pod exists
  retrying   an attempt did not pass
  stuck      all attempts of the profile did not pass; it is tried on
  failing    open, and the last attempt did not pass: the profile only reports
  verified   open, the checks passed
  open       its checks have not passed

WHY has the cause and the next step, in the words of the Node's Events and of its condition. docs/verification.md has
all causes. ATTEMPTS counts those that did not pass. CHECK is the check that failed last, and NEXT when the next attempt
starts at the earliest. There, "due" means now, and "-" that the Node waits for what WHY names, or that a worker Pod
runs. The wide format has the last result and the taint. The Pods of DaemonSets that a profile waits for are looked at
by show only.`

const verifyListExamples = `
	# Who waits, and for what
	nodekeep verify list

	# With the last results
	nodekeep verify list -o wide

	# How many there are
	nodekeep verify list --no-headers | wc -l`

func newVerifyListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &verifyListOptions{options: newOptions(streams)}
	o.names = true
	command := o.task(&cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "Which Nodes wait until they are checked, and for what",
		Long:    verifyListLong,
		Example: verifyListExamples,
	}, prints|decides, o)
	flags := command.Flags()
	flags.BoolVarP(&o.everyNode, "all", "a", false, "also Nodes that are open")
	flags.StringVarP(&o.selectorText, "selector", "l", "", "label selector")
	o.namespace.addTo(command)
	return command
}

func (o *verifyListOptions) validate() (err error) {
	if o.selector, err = labels.Parse(o.selectorText); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return o.namespace.validate()
}

func (o *verifyListOptions) rights(c *session, _ []string) []doctor.Right {
	return []doctor.Right{c.NodesRight("list")}
}

func (o *verifyListOptions) run(ctx context.Context, c *session, _ []string) error {
	stopped := c.emergencyDeclared(ctx)
	workers, err := c.ListWorkers(ctx, string(o.namespace), metav1.ListOptions{})
	c.sayUnknown("Which worker Pods exist", err)
	list, selected := view.VerificationList{Items: []view.Verification{}}, 0
	proofs := impact.NewProofs(c.in.Policy.Verify(), string(c.in.Policy.Gate()))
	for node, err := range c.ListNodes(ctx) {
		if err != nil {
			return err
		}
		proofs.See(node)
		v := view.VerificationOf(node, workers[node.Name], nil, c.in.Policy, c.Now())
		if v.Profile != "" {
			selected++
		}
		if o.selector.Matches(labels.Set(node.Labels)) && (v.Waits() || v.Fails() || o.everyNode && v.Profile != "") {
			list.Items = append(list.Items, v)
		}
	}
	if slices.ContainsFunc(c.in.Policy.Verify().All(), verify.CompiledProfile.Removes) {
		list.Removals = c.removals(ctx, string(o.namespace), selected)
	}
	trials, err := c.GetTrials(ctx, string(o.namespace), proofs.UnprovedByNodes())
	c.sayUnknown("What came of trials of profiles", err)
	if err == nil {
		list.Unproved = proofs.Unproved(trials, c.Now())
	}
	if o.table() && !stopped && (len(list.Unproved) > 0 || slices.ContainsFunc(list.Items, view.Verification.NeedsController)) {
		c.sayNoController(ctx)
	}
	if o.table() {
		for _, item := range list.Unproved {
			c.say("%s", item.Line())
		}
	}
	if o.table() && list.Removals != nil {
		for _, line := range list.Removals.Lines(c.Now()) {
			c.say("%s", line)
		}
	}
	if o.table() && len(list.Items) == 0 {
		filter := ""
		if !o.selector.Empty() {
			filter = " with these labels"
		}
		c.say("No Node%s waits for verification.", filter)
		return nil
	}
	return o.write(c, "NodeVerificationList", list)
}

func newVerifyShowCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = func(c *session, args []string) []doctor.Right { return []doctor.Right{c.NodeRight("get", args[0])} }
	var namespace checksNamespace
	command := o.command(&cobra.Command{
		Use:   "show NODE [flags]",
		Short: "Why a Node is not verified yet, its last report that did not pass, and whether it was removed",
		Long: `Show says where the verification of a Node stands, what it waits for, and what came of the last attempt. It
shows the report of the last attempt that did not pass until its retention is over. The report stays also after the
Node is open, or deleted. A worker runs on the Node that it checks, so its report is the Node's own word.

Of a verified Node it names the profile, and the generation of the policy under which the Node passed.

Where the profile removes Nodes that fail, it says why the Node is not removed yet. For 24 hours it says when the Node
was removed, and by which kind of onFailure.`,
		Example: `
			# Why a Node takes no workloads
			nodekeep verify show worker-1

			# Whether it is verified, for scripts
			nodekeep verify show worker-1 -o jsonpath='{.verification.state}{"\n"}'`,
	}, aboutNode|prints|decides, func(ctx context.Context, c *session, args []string) error {
		stopped := c.emergencyDeclared(ctx)
		shown, err := c.nodeVerification(ctx, string(namespace), args[0])
		if err != nil {
			return err
		}
		if o.table() && !stopped && shown.Verification != nil && shown.Verification.NeedsController() {
			c.sayNoController(ctx)
		}
		return o.write(c, "NodeVerification", shown)
	})
	namespace.addTo(command)
	o.validate = namespace.validate
	return command
}

// nodeVerification reads all that is known about the verification of a Node.
func (c *session) nodeVerification(ctx context.Context, namespace, name string) (view.NodeVerification, error) {
	shown := view.NodeVerification{Node: name}
	node, err := c.GetNode(ctx, name)
	if err != nil {
		return shown, err
	}
	report, reportErr := c.GetLastReport(ctx, namespace, name)
	removals, ledgerErr := c.GetRemovals(ctx, namespace, name)
	shown.Report, shown.Removals = report, removals
	known := node != nil || report != nil || len(removals) > 0
	switch {
	case !known && (reportErr != nil || ledgerErr != nil):
		return shown, errors.Join(reportErr, ledgerErr)
	case !known:
		return shown, fmt.Errorf("there is no Node %q, and no report about one in namespace %s", name, namespace)
	}
	c.sayUnknown("What the last report said", reportErr)
	c.sayUnknown("Whether a Node of this name was removed", ledgerErr)
	if node == nil {
		return shown, nil
	}
	workers, err := c.ListWorkersOn(ctx, namespace, name)
	c.sayUnknown("Whether a worker Pod exists", err)
	profile, _ := c.in.Policy.Verify().Match(node.Labels)
	ready, err := c.GetReadyDaemonSets(ctx, node, profile)
	c.sayUnknown("Whether the DaemonSets of the profile are ready", err)
	v := view.VerificationOf(node, workers, ready, c.in.Policy, c.Now())
	shown.UID, shown.Verification = string(node.UID), &v
	return shown, nil
}

// removals returns those of the whole cluster, in which profiles select so many Nodes; nil where they cannot be read.
func (c *session) removals(ctx context.Context, namespace string, nodes int) *view.Removals {
	ledger, err := c.GetLedger(ctx, namespace)
	if err != nil {
		c.sayUnknown("Which Nodes were removed, and what holds removals,", err)
		return nil
	}
	removals := view.RemovalsOf(ledger, c.in.Policy.Verify(), nodes, c.Now())
	return &removals
}
