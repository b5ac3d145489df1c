package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
)

// checkOptions are the flags of `check`; --policy is the one to compare with.
type checkOptions struct {
	*options
	againstCluster bool
}

const checkLong = `Check reads the manifest of a NodePolicy, "-" for stdin, just as the processes read the object. It names every
error with its line and field; with one, the exit code is 2.

With --against-cluster it also looks at every Node and every record. It shows what this policy would change compared
with the one in force:

  - each field and each entry of a list in which the two policies differ, even if no Node is affected
  - which labels and taints would be kept or no longer kept
  - what would become of recorded ones when their Nodes register again: restored at once while the Node is created,
    restored later behind the gate, or not at all
  - which taints rules would add and remove
  - how many records of deleted Nodes would be removed
  - which labels the rules in labels.rules would add, change and remove on the Nodes as they are now
  - which labels stay because an operator set them, and which are blocked because a fact is not known
  - whether the rules would be held until an operator accepts them
  - which rules of governance Nodes would break, and which of these Nodes do not break them now

Notes name facts that rules ask for and no Node has. These are resources, architectures, operating systems, features,
devices, and attributes of inventories.

For profiles of verification it also reads the Services and DaemonSets that they name. A warning says why no Node of a
profile could pass, and what to do. For example, the DNS Service has another name, a Service or DaemonSet does not
exist, or none of the Nodes has a resource or condition. What you may not read is named, and is no warning.

Two tables list what the Nodes show:

  KEPT       who set it, on how many Nodes, and an example. It begins with what no known client of operators set
  NOT KEPT   the reason, which names the component that owns the key

More than three labels of one domain are one line if the same clients set them. The field "keys" of -o json lists them
all.

This works before nodekeep is installed, too. Devices and features of Nodes are known if you may list ResourceSlices and
NodeFeatures. Changes are counted; the first of the Nodes are named with -o wide. Nothing is changed.

A key that a policy no longer keeps stays in the record and is not restored. Records that the retention removes are
lost.

With Helm, check what the chart's template policy.yaml makes of the values that you install (docs/operating.md).
Check it once more after the upgrade: it prints "Changes: none".`

const checkExamples = `
	# Errors in a file
	nodekeep check policy.yaml

	# What it would change in this cluster
	nodekeep check policy.yaml --against-cluster

	# For scripts: what would be kept, and who set it
	nodekeep check policy.yaml --against-cluster -o jsonpath='{range .impact.kept[*]}{.item}{"\t"}{.managers}{"\n"}{end}'

	# Whether the policy of the cluster itself is valid
	kubectl get nodepolicy default -o yaml | nodekeep check -

	# For scripts: whether its rules for labels would wait for an operator
	nodekeep check policy.yaml --against-cluster -o jsonpath='{.impact.labelRules.held}'

	# For scripts: how many records would be removed
	nodekeep check policy.yaml --against-cluster -o jsonpath='{.impact.due.planned}'`

func newCheckCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &checkOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "check FILE [flags]",
		Short:   "Check a NodePolicy: all its errors, and what it would change in this cluster",
		Long:    checkLong,
		Example: checkExamples,
		GroupID: groupSee,
		Args:    oneArg("one manifest of a NodePolicy, or - for stdin", unchecked),
	}, hasOutput|hasPolicy, o)
	command.Flags().BoolVar(&o.againstCluster, "against-cluster", false, "say what it would change for the Nodes of this cluster")
	return command
}

func (o *checkOptions) validate() error {
	if o.offline = !o.againstCluster; o.offline && o.policy.file != "" {
		return errors.New("--policy says what to compare with: it goes with --against-cluster")
	}
	return nil
}

func (o *checkOptions) rights(c *session, _ []string) []doctor.Right {
	return append(c.allNodesRights("list"), c.ConfigMapRight("get", store.AcceptedConfigMap))
}

func (o *checkOptions) run(ctx context.Context, c *session, args []string) error {
	content, err := readFile(args[0], o.In)
	if err != nil {
		return asUsage(fmt.Errorf("read policy: %w", err))
	}
	check := view.PolicyCheck{File: args[0]}
	if args[0] == "-" {
		check.File = "stdin"
	}
	planned, err := policy.Load(content, c.inputs.Policy.Gate())
	switch {
	case errors.As(err, &check.Errors):
		return o.reportErrors(check)
	case err != nil:
		return asUsage(err)
	}
	check.Warnings = planned.Warnings()
	if check.Valid = true; o.againstCluster {
		check.ComparedWith = o.policy.source
		if check.Impact, err = c.compare(ctx, planned); err != nil {
			return err
		}
	}
	return o.write(c, "PolicyCheck", check)
}

// reportErrors reports the errors in a manifest.
func (o *options) reportErrors(check view.PolicyCheck) error {
	if o.isText() {
		for _, fileErr := range check.Errors {
			if _, err := fmt.Fprintln(o.Out, fileErr.Location(check.File)); err != nil {
				return err
			}
		}
	} else if err := o.writeObject(o.Out, "PolicyCheck", check); err != nil {
		return err
	}
	return asUsage(fmt.Errorf("%s cannot be used as a policy: %s", check.File, view.Counted(len(check.Errors), "error")))
}

// compare goes through every Node and every record.
func (c *session) compare(ctx context.Context, planned policy.Policy) (*impact.Impact, error) {
	state, err := c.GetAcceptedConfigMap(ctx)
	if err != nil {
		return nil, err
	}
	rules := cluster.RulesInForce(state)
	if planned.AcceptsRules() || state != nil && state.Data[store.RulesAccepted] == planned.RulesHash() {
		rules = planned.RulesHash() // capture does not hold them
	}
	comparison := impact.NewComparison(c.inputs, planned, rules, c.Devices(ctx, planned.LabelRules().Drivers()), c.Features(ctx, planned.LabelRules().NodeFeatures()))
	facts := c.profileFacts(ctx, planned.Verify())
	selected := impact.NewSelectedNodes(planned.Verify(), facts, string(planned.Gate()), c.inputs.Now)
	for state, err := range c.ListStates(ctx) {
		if err != nil {
			return nil, err
		}
		if err := comparison.Add(state); err != nil {
			return nil, err
		}
		if state.Node != nil {
			selected.Add(state.Node)
		}
	}
	found := comparison.Impact()
	found.Profiles = impact.Obstacles(planned.Verify(), facts, selected)
	if planned.LabelRules().LooksAtInventory() {
		notes, err := c.GetInventoryState(ctx)
		if err != nil {
			c.sayUnknown("Which attributes an inventory has of no Node", err)
		}
		found.Missing = append(found.Missing, impact.MissingAttributes(planned, notes)...)
	}
	return &found, nil
}

// profileFacts reads what profiles name. What cannot be read is written to stderr, and is not known.
func (c *session) profileFacts(ctx context.Context, profiles verify.Profiles) impact.ProfileFacts {
	if profiles.Empty() {
		return impact.ProfileFacts{}
	}
	right := doctor.Right{Verb: "get", Group: appsv1.GroupName, Resource: "deployments", Namespace: c.Namespace, Name: doctor.VerifyDeployment}
	var verifier doctor.Reading[*appsv1.Deployment]
	var unread []cluster.FailedCall
	deployment, err := c.Client.AppsV1().Deployments(c.Namespace).Get(ctx, doctor.VerifyDeployment, metav1.GetOptions{})
	switch {
	case store.IsGone(err):
		verifier = doctor.Absent[*appsv1.Deployment]()
	case err != nil:
		unread = append(unread, cluster.FailedCall{Right: right, Err: err})
	default:
		verifier = doctor.Found(deployment)
	}
	facts, failed := c.GetProfileFacts(ctx, profiles, verifier)
	reported := map[string]bool{}
	for _, call := range append(unread, failed...) {
		if denied := call.Right.Denied(); !reported[denied] {
			c.sayUnknown("Whether the profiles can pass in this cluster", c.ExplainError(call.Right, call.Err))
			reported[denied] = true
		}
	}
	return facts
}
