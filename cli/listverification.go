package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/verify"
)

// checksNamespace is where worker Pods run and reports are kept.
type checksNamespace string

func (n *checksNamespace) addFlags(command *cobra.Command) {
	command.Flags().StringVar((*string)(n), "checks-namespace", verify.Namespace, "namespace in which verification runs its worker Pods and keeps reports")
}

// onlyWith refuses the flag where it would have no effect. The command reads the namespace only with a certain argument or flag, which name names; used says
// whether that was given.
func (n *checksNamespace) onlyWith(name string, used bool) error {
	if *n != verify.Namespace && !used {
		return fmt.Errorf("--checks-namespace goes with %s", name)
	}
	return nil
}

func (n *checksNamespace) validate() error { return checkNamespace("--checks-namespace", string(*n)) }

const waitingVerificationHelp = `With --waiting verification, list shows the Nodes that have a taint of verification, and those that wait to be checked
again. It also shows open Nodes whose checks fail, where the profile has mode report and so closes no Node. With --all
it adds all other open Nodes that a profile selects.

Where a profile removes Nodes that fail, lines above the table say which Node was removed last. They also say which
limit stops all removals at the moment. REMOVAL says why a Node is not removed.

If no verification controller leads, a line says so: no Node is checked then.

A profile is proved once its checks have passed on a Node, or in a trial on an open Node. A line above the table names
each profile that selects Nodes and is not proved yet.

STATE is one of these:

  waiting    not tried yet
  checking   a worker Pod exists
  retrying   an attempt did not pass
  stuck      all attempts of the profile have failed; more are made
  failing    open, although the last attempt failed (mode report)
  verified   open, the checks passed
  open       its checks have not passed

WHY has the cause and the next step, in the words of the Node's Events and of its condition. The page
docs/verification.md of the repository has all causes. ATTEMPTS counts those that did not pass. CHECK is the check that
failed last, and NEXT when the next attempt starts at the earliest. In NEXT, "due" is now, and "-" means that the Node
waits for what WHY names, or that a worker Pod runs. The wide format has the last result and the taint. The Pods of
DaemonSets that a profile waits for are looked at by "nodekeep show NODE --verification" only.`

// listUnverified shows the Nodes that wait until they are checked.
func (o *listOptions) listUnverified(ctx context.Context, c *session) error {
	stopped := c.applyEmergency(ctx)
	workers, err := c.ListWorkers(ctx, string(o.namespace), metav1.ListOptions{})
	c.sayUnknown("Which worker Pods exist", err)
	list, selected := view.VerificationList{Items: []view.Verification{}}, 0
	proofs := impact.NewProofs(c.inputs.Policy.Verify(), string(c.inputs.Policy.Gate()))
	for node, err := range c.ListNodes(ctx) {
		if err != nil {
			return err
		}
		proofs.Add(node)
		v := view.VerificationOf(node, workers[node.Name], nil, c.inputs.Policy, c.Now())
		if v.Profile != "" {
			selected++
		}
		if o.selector.Matches(labels.Set(node.Labels)) && (v.Waits() || v.Fails() || o.everyNode && v.Profile != "") {
			list.Items = append(list.Items, v)
		}
	}
	if slices.ContainsFunc(c.inputs.Policy.Verify().All(), verify.CompiledProfile.Removes) {
		list.Removals = c.clusterRemovals(ctx, string(o.namespace), selected)
	}
	trials, err := c.GetTrials(ctx, string(o.namespace), proofs.UnprovedByNodes())
	c.sayUnknown("What came of trials of profiles", err)
	if err == nil {
		list.Unproved = proofs.Unproved(trials, c.Now())
	}
	if o.isText() && !stopped && (len(list.Unproved) > 0 || slices.ContainsFunc(list.Items, view.Verification.NeedsController)) {
		c.warnNoVerificationController(ctx)
	}
	if o.isText() {
		for _, item := range list.Unproved {
			c.say("%s", item.Line())
		}
	}
	if o.isText() && list.Removals != nil {
		for _, line := range list.Removals.Lines(c.Now()) {
			c.say("%s", line)
		}
	}
	if o.isText() && len(list.Items) == 0 {
		c.say("No Node%s waits for verification.", o.selectionSuffix())
		return nil
	}
	return o.write(c, "NodeVerificationList", list)
}

// showVerification shows where the verification of a Node is.
func (o *showOptions) showVerification(ctx context.Context, c *session, node string) error {
	stopped := c.applyEmergency(ctx)
	shown, err := c.nodeVerification(ctx, string(o.namespace), node)
	if err != nil {
		return err
	}
	if o.isText() && !stopped && shown.Verification != nil && shown.Verification.NeedsController() {
		c.warnNoVerificationController(ctx)
	}
	return o.write(c, "NodeVerification", shown)
}

// nodeVerification reads all that is known about the verification of a Node.
func (c *session) nodeVerification(ctx context.Context, namespace, name string) (view.NodeVerification, error) {
	shown := view.NodeVerification{Node: name}
	node, err := c.GetNode(ctx, name)
	if err != nil {
		return shown, err
	}
	report, reportErr := c.GetLastFailedReport(ctx, namespace, name)
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
	workers, err := c.ListWorkersOfNode(ctx, namespace, name)
	c.sayUnknown("Whether a worker Pod exists", err)
	profile, _ := c.inputs.Policy.Verify().Match(node.Labels)
	ready, err := c.GetDaemonSetReadiness(ctx, node, profile)
	c.sayUnknown("Whether the DaemonSets of the profile are ready", err)
	v := view.VerificationOf(node, workers, ready, c.inputs.Policy, c.Now())
	shown.UID, shown.Verification = string(node.UID), &v
	return shown, nil
}

// clusterRemovals returns those of the whole cluster, where nodes is the number of Nodes that profiles select; nil: they cannot be read.
func (c *session) clusterRemovals(ctx context.Context, namespace string, nodes int) *view.Removals {
	ledger, err := c.GetLedger(ctx, namespace)
	if err != nil {
		c.sayUnknown("Which Nodes were removed, and what holds removals,", err)
		return nil
	}
	removals := view.RemovalsOf(ledger, c.inputs.Policy.Verify(), nodes, c.Now())
	return &removals
}
