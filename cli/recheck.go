package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/verify"
)

// recheckManager is the field manager of the command.
const recheckManager = "nodekeep-recheck"

// recheckOptions are the flags of `recheck`.
type recheckOptions struct {
	*options
	batch     recheckManyFlags
	namespace checksNamespace
}

const recheckLong = `Recheck adds the taint of the Node's profile, and removes the label that says the Node is verified. Both are one update,
which fails if the Node has changed meanwhile. The controller then checks the Node as it checks a new one. Where the
taint's effect is NoSchedule, Pods on the Node go on to run. With NoExecute they are evicted. A Node whose profile has
mode report gets no taint. It is checked at once, and stays open.

On a Node that is closed already, stuck or not, attempts begin anew, and one starts at once. A worker Pod that runs is
replaced. Where no attempt can start yet, the answer says for what the Node waits.

It waits up to 30 seconds until verification controllers have read the policy. It warns if they do not read it, or if
none runs.

With -l or --all it does so with each open Node, a few at a time. Nodes of profiles with mode report are left out. --max
says how many Nodes are closed at one time, also counting those that are closed already. A percentage is of all Nodes
that are selected, rounded down, and one Node at least. The next Node is closed once another one has passed. The last
Node that takes Pods is never closed.

Nodes that have passed the checks of their profile as it is now are left out, unless --again is given. So if the
command was interrupted, it goes on when it is run again. It stops at the first Node that does not pass. Nodes that
are closed at that moment open by themselves once they pass.`

const recheckExamples = `
	# After a repair
	nodekeep recheck worker-1

	# Which Nodes of the cluster were not checked yet
	nodekeep recheck --all --dry-run

	# Check them, one in ten at a time
	nodekeep recheck --all --yes

	# The Nodes of a pool, two at a time, also those that passed before
	nodekeep recheck -l pool=gpu --max 2 --again`

func newRecheckCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &recheckOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "recheck (NODE | -l SELECTOR | --all) [flags]",
		Short:   "Verify a Node again, or many Nodes, a few at a time",
		Long:    recheckLong,
		Example: recheckExamples,
		GroupID: groupAct,
		Args:    o.batch.validateArgs,
	}, takesNode|hasPolicy|hasConfirmation, o)
	o.batch.addFlags(command)
	o.namespace.addFlags(command)
	return command
}

func (o *recheckOptions) validate() error {
	several := o.batch.all || o.batch.selectorText != ""
	return errors.Join(o.batch.validate(), o.namespace.validate(), o.namespace.onlyWith("NODE", !several))
}

func (o *recheckOptions) rights(c *session, args []string) []doctor.Right {
	right, needed := c.NodesRight, []doctor.Right{c.NodesRight("list")}
	if len(args) > 0 {
		right, needed = func(verb string) doctor.Right { return c.NodeRight(verb, args[0]) }, nil
	}
	if o.dryRun && len(args) == 0 {
		return needed
	}
	needed = append(needed, right("get"))
	if !o.dryRun {
		needed = append(needed, right("patch"))
	}
	return needed
}

func (o *recheckOptions) run(ctx context.Context, c *session, args []string) error {
	if c.applyEmergency(ctx) {
		return fmt.Errorf("nothing was changed: %w", errEmergency)
	}
	if len(args) == 0 {
		return o.batch.run(ctx, o.options, c)
	}
	if !o.dryRun {
		if err := c.awaitPolicyRead(ctx, policyReadTimeout); err != nil {
			return err
		}
	}
	return o.change(ctx, c, func(ctx context.Context) (*proposal, error) { return c.recheckPlan(ctx, string(o.namespace), args[0]) })
}

// recheckPlan returns the plan to check one Node at once.
func (c *session) recheckPlan(ctx context.Context, namespace, name string) (*proposal, error) {
	node, err := c.RequireNode(ctx, name)
	if err != nil {
		return nil, err
	}
	workers, err := c.ListWorkersOfNode(ctx, namespace, name)
	c.sayUnknown("Whether a worker Pod must be deleted first", err)
	recheck, err := view.RecheckPlanOf(node, workers, c.inputs.Policy, c.Now())
	switch {
	case err != nil:
		return nil, err
	case !recheck.Writes():
		return nil, c.printResult("node/%s: %s", name, recheck.Done)
	}
	return &proposal{summary: recheck.Summary, question: recheck.Question, fingerprint: [2]string{string(node.UID), recheck.Fingerprint}, apply: func(ctx context.Context) error {
		if err := c.patchNode(ctx, observe.FromNode(node), recheck.Change, metav1.PatchOptions{FieldManager: recheckManager}); err != nil {
			return err
		}
		return c.printResult("node/%s: %s", name, recheck.Done)
	}}, nil
}

// recheckManyFlags are the flags by which many Nodes are taken into verification.
type recheckManyFlags struct {
	all, includeVerified bool
	selectorText, max    string

	selector labels.Selector
	limit    intstr.IntOrString
}

func (r *recheckManyFlags) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&r.all, "all", false, "all Nodes with a profile that have not passed its current checks")
	flags.StringVarP(&r.selectorText, "selector", "l", "", "label selector; like --all, for these Nodes only")
	flags.StringVar(&r.max, "max", "10%", "how many of these Nodes are closed at one time: a number or a percentage")
	flags.BoolVar(&r.includeVerified, "again", false, "also Nodes that have passed the current checks; with -l or --all")
}

func (r *recheckManyFlags) validateArgs(command *cobra.Command, args []string) error {
	flags := command.Flags()
	switch several := r.all || flags.Changed("selector"); {
	case r.all && flags.Changed("selector"), several && len(args) > 0:
		return errors.New("NODE, --selector and --all exclude each other")
	case several:
		return nil
	}
	for _, name := range []string{"max", "again"} {
		if flags.Changed(name) {
			return fmt.Errorf("--%s needs --selector or --all", name)
		}
	}
	return oneNode(command, args)
}

func (r *recheckManyFlags) validate() (err error) {
	if r.selector, err = labels.Parse(r.selectorText); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	wrong := fmt.Errorf("--max %q: must be a number of Nodes, or a percentage from 1%% to 100%%", r.max)
	if r.limit = intstr.Parse(r.max); r.limit.Type == intstr.Int {
		if r.limit.IntVal < 1 {
			return wrong
		}
		return nil
	}
	if percent, err := intstr.GetScaledValueFromIntOrPercent(&r.limit, 100, false); err != nil || percent < 1 || percent > 100 {
		return wrong
	}
	return nil
}

// How often the state of the Nodes is read: each second, and less often where that takes long. Every progressInterval a message names what is waited for.
const (
	pollInterval     = time.Second
	pollBackoff      = 5 // the wait between two reads is at least this many times the duration of the last read
	progressInterval = 30 * time.Second
)

// state reads all Nodes.
func (r *recheckManyFlags) state(ctx context.Context, c *session) (view.RecheckState, error) {
	var nodes []*corev1.Node
	for node, err := range c.ListNodes(ctx) {
		if err != nil {
			return view.RecheckState{}, err
		}
		node.Status.Images = nil // the larger part
		nodes = append(nodes, node)
	}
	return view.RecheckStateOf(nodes, r.selector, c.inputs.Policy, c.Now()), nil
}

// run shows, asks, and takes the Nodes into verification.
func (r *recheckManyFlags) run(ctx context.Context, o *options, c *session) error {
	if c.inputs.Policy.Verify().Empty() {
		return errors.New("nothing was changed: the policy has no profiles in its section verify")
	}
	state, err := r.state(ctx, c)
	if err != nil {
		return err
	}
	limit, due := state.Limit(r.limit), state.Due(r.includeVerified, nil)
	if len(due) == 0 {
		c.say("%s.", state.Summary(limit, r.includeVerified))
		return nil
	}
	proceed, err := o.confirm(ctx, c, &proposal{
		document: view.Document{Tables: []*metav1.Table{state.Table(r.includeVerified)}}, long: true,
		summary: state.Summary(limit, r.includeVerified) + ".\n" + state.PodsSentence(r.includeVerified), question: "Check " + view.Counted(len(due), "Node") + "?",
	})
	if err != nil || !proceed {
		return err
	}
	if err := c.awaitPolicyRead(ctx, policyReadTimeout); err != nil {
		return err
	}
	return r.closeAll(ctx, c, limit)
}

// closeAll closes Nodes as others open, until all are verified or one does not pass.
func (r *recheckManyFlags) closeAll(ctx context.Context, c *session, limit int) error {
	var closedNodes []view.ClosedNode
	reported, verified, remain := time.Now(), 0, 0
	for {
		began := time.Now()
		state, err := r.state(ctx, c)
		if ctx.Err() != nil {
			return exitError{exitInterrupted, fmt.Errorf("interrupted: %s", progressText(verified, len(closedNodes)-verified, remain))}
		}
		if err != nil {
			return asFindings(fmt.Errorf("%w\n  until then: %s", err, progressText(verified, len(closedNodes)-verified, remain)))
		}
		step := state.Next(limit, r.includeVerified, closedNodes)
		remain = len(state.Due(r.includeVerified, closedNodes))
		if declared, err := c.GetEmergency(ctx); err == nil && declared.Active { // [session.applyEmergency] has said if it is not known
			return asFindings(fmt.Errorf("%w\n  %s", errEmergency, progressText(verified, len(closedNodes)-verified, remain)))
		}
		if step.Verified > verified {
			verified, reported = step.Verified, time.Now()
			c.say("%s verified, %d closed, %d remain", view.Counted(verified, "Node"), step.InFlight, remain)
		}
		switch {
		case step.Stop != "":
			return asFindings(fmt.Errorf("%s\n  %s", step.Stop, progressText(verified, step.InFlight, remain)))
		case step.Ended:
			return c.printResult("%s verified", view.Counted(verified, "Node"))
		case len(step.Close) == 0 && time.Since(reported) > progressInterval:
			reported = time.Now()
			c.say("waiting for %s", step.Waiting)
		}
		batch, err := r.closeBatch(ctx, c, step.Close)
		closedNodes, remain = append(closedNodes, batch...), remain-len(batch)
		if err != nil && ctx.Err() == nil {
			return asFindings(fmt.Errorf("%w\n  %s", err, progressText(verified, step.InFlight+len(batch), remain)))
		}
		sleep(ctx, max(pollInterval, pollBackoff*time.Since(began)))
	}
}

// progressText says what is left of the Nodes, and how to go on.
func progressText(verified, closed, remain int) string {
	parts := []string{view.Counted(verified, "Node") + " verified"}
	if closed > 0 {
		parts = append(parts, fmt.Sprintf("%d closed, which open by themselves once they pass (nodekeep list --waiting verification)", closed))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d remain; run it again to go on", remain)), "; ")
}

// closeBatch closes some Nodes. Nodes that were deleted, closed or are no longer selected meanwhile are skipped.
func (r *recheckManyFlags) closeBatch(ctx context.Context, c *session, nodes []view.RecheckNode) (batch []view.ClosedNode, err error) {
	err = changeInParallel(ctx, nodes, func(candidate view.RecheckNode) (view.ClosedNode, error) {
		var closed view.ClosedNode
		err := change(ctx, func(ctx context.Context) (*proposal, error) {
			node, err := c.GetNode(ctx, candidate.Name)
			if err != nil || node == nil || string(node.UID) != candidate.UID || len(c.inputs.Policy.Verify().ClosingTaints(node.Spec.Taints)) > 0 {
				return nil, err
			}
			profile, selected := c.inputs.Policy.Verify().Match(node.Labels)
			if !selected || profile.ReportsOnly() { // its labels have changed
				return nil, nil
			}
			return &proposal{apply: func(ctx context.Context) error {
				err := c.patchNode(ctx, observe.FromNode(node), view.CloseEdits(node, c.inputs.Policy, profile, c.Now()), metav1.PatchOptions{FieldManager: recheckManager})
				if err == nil {
					round := verify.ParseProgress(node.Annotations[verify.Annotation]).AfterOpen().Round
					closed = view.ClosedNode{Name: candidate.Name, UID: candidate.UID, Round: round}
				}
				return err
			}}, nil
		}, nil)
		return closed, err
	}, func(closed view.ClosedNode, _ error) {
		if closed.UID != "" {
			batch = append(batch, closed)
			_ = c.printResult("node/%s: taint added; the controller verifies the Node", closed.Name)
		}
	})
	return batch, err
}
