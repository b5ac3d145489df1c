package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// acceptOptions are the flags of `accept`.
type acceptOptions struct {
	*options
	machine string // of a record
	rule    string // of an adoption
	force   bool   // of a migration
}

// recordKind is the kind that is about a Node.
const recordKind = "record"

// acceptedKind is something that waits until an operator accepts it.
type acceptedKind struct {
	name     string
	argument string // what it is about; empty: it takes no argument
	check    func(argument string) error
	flags    []string // those of this kind alone
	rights   func(c *session, argument string) []doctor.Right
	accept   func(ctx context.Context, c *session, argument string) error
}

const acceptLong = `Accept carries out what nodekeep does not do without an operator's word. It shows what that means, and asks first.

record NODE decides about a record that is quarantined. --machine, which it requires, says to which machine the record
belongs. Under machine.onMismatch: quarantine, another machine has registered under the name of a Node. The new machine
gets nothing from the record, and its Node stays behind the gate until an operator decides. Under machine.follow: true,
labels that no kubelet may set wait in the same way, when a machine registers under a new name. With "old", the record
belongs to the machine that has the name now: it is restored there. With "new" it does not: the record is deleted, and a
new one is written from the Node of the new machine. The decision is written on the record, and capture carries it out.

rules HASH accepts rules for labels that are held. New rules are held if they would remove or change labels on more than
one Node in ten. Until an operator accepts them, they only add labels. The Event ChangesHeld and "nodekeep doctor" show
the HASH of these rules. HASH must name the rules of the policy in the cluster, so that nobody accepts rules that have
changed since they were looked at. The command writes key ` + store.RulesAccepted + ` of ConfigMap ` + store.AcceptedConfigMap + `; capture follows within
seconds. HASH can also name a snapshot of an inventory that is held, which the Event and ConfigMap ` + inventories.InventoryName + `
show. It writes key SOURCE.accepted of that ConfigMap.

corrections lets capture remove or revert labels and taints, as the records say, on any number of Nodes for an hour.
Otherwise capture changes one Node in ten within an hour, and the Event ChangesHeld says that the others wait. Held
corrections are a sign that something has changed many records. First find out what changed them.
"nodekeep show NODE --diff" shows what is due on a Node. It writes key ` + store.CorrectionsAccepted + ` of ConfigMap ` + store.AcceptedConfigMap + `.

adoption KEY hands the label KEY over to the rules of the policy. It does so on Nodes where an operator or a job has set
exactly the value that a rule derives. From then on the label is the rule's: it changes with the rule, and is removed
with it. A label with another value is listed and left alone, and the exit code is 1 then. The command itself changes no
label. On each Node it writes the annotation ` + policy.LabelsAnnotation + `, with your rights, and then the record, as
capture would. If it is interrupted, capture completes the Nodes whose annotation is written; run it again for the
others. The rules must be in force.

migration OLD=NEW removes the old key of a migration, once nothing selects on it. It refuses while a workload, a volume
or a rule of the policy selects on it. It also refuses while you may not list one of these kinds. --force goes on all
the same: the DaemonSet controller then deletes Pods whose Nodes lose the label. While the policy says phase: both, it
prints how to change the policy, for you to do where you keep it. Once the policy says phase: new, capture holds the
migration, and this command accepts it. capture then writes NEW into each record before it removes OLD from the Node. It
removes OLD only from Nodes that have both.`

const acceptExamples = `
	# The board was replaced, the Node is the same
	nodekeep accept record worker-3 --machine old --yes

	# On how many Nodes new rules would remove or change labels
	nodekeep accept rules 3f2a91c04b7d --dry-run

	# How many Nodes records have corrected in the last hour
	nodekeep accept corrections --dry-run

	# Which labels would be handed over to a rule
	nodekeep accept adoption hardware.tier --dry-run

	# Remove the old key of a migration
	nodekeep accept migration gpu=example.com/gpu`

func newAcceptCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &acceptOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:               "accept (record NODE --machine old|new | rules HASH | corrections | adoption KEY | migration OLD=NEW) [flags]",
		Short:             "Let nodekeep do what waits for an operator: a record, rules, corrections, an adoption, a migration",
		Long:              acceptLong,
		Example:           acceptExamples,
		GroupID:           groupAct,
		Args:              o.validateArgs,
		ValidArgsFunction: o.completeArgs,
	}, hasConfirmation, o)
	sides := []string{string(store.OldMachine), string(store.NewMachine)}
	addChoiceFlag(command, &o.machine, "machine", "with record: the machine that the record belongs to, old or new; required", sides...)
	command.Flags().StringVar(&o.rule, "rule", "", "with adoption: only labels that this rule sets")
	command.Flags().BoolVar(&o.force, "force", false, "with migration: go on even if something still selects on the old key")
	return command
}

// kinds returns all that can be accepted.
func (o *acceptOptions) kinds() []acceptedKind {
	rules := func(c *session, _ string) []doctor.Right {
		return c.acceptRulesRights(o.acceptVerbs("patch", "create")...)
	}
	return []acceptedKind{
		{name: recordKind, argument: "the name of one Node", check: o.checkRecord, flags: []string{"machine"}, rights: o.recordRights, accept: o.acceptRecord},
		{name: "rules", argument: "the hash of what is held", check: checkHash, rights: rules, accept: o.acceptRules},
		{name: "corrections", rights: o.correctionsRights, accept: o.acceptCorrections},
		{name: "adoption", argument: "the key of one label", check: checkLabelKey, flags: []string{"rule"}, rights: o.adoptionRights, accept: o.acceptAdoption},
		{name: "migration", argument: "one OLD=NEW", check: checkMigrationArgument, flags: []string{"force"}, rights: rules, accept: o.acceptMigration},
	}
}

// kind returns the kind of that name.
func (o *acceptOptions) kind(name string) (found acceptedKind, ok bool) {
	kinds := o.kinds()
	i := slices.IndexFunc(kinds, func(kind acceptedKind) bool { return kind.name == name })
	if i < 0 {
		return acceptedKind{}, false
	}
	return kinds[i], true
}

// names returns the names of all kinds.
func (o *acceptOptions) names() (names []string) {
	for _, kind := range o.kinds() {
		names = append(names, kind.name)
	}
	return names
}

// validateArgs takes a kind and what it is about.
func (o *acceptOptions) validateArgs(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s takes a kind: one of %s", command.CommandPath(), strings.Join(o.names(), ", "))
	}
	kind, ok := o.kind(args[0])
	if !ok {
		return fmt.Errorf("%s %q: the kind must be one of %s", command.CommandPath(), args[0], strings.Join(o.names(), ", "))
	}
	for _, other := range o.kinds() {
		for _, flag := range other.flags {
			if command.Flags().Changed(flag) && !slices.Contains(kind.flags, flag) {
				return fmt.Errorf("--%s goes with %q, not with %q", flag, other.name, kind.name)
			}
		}
	}
	switch path := command.CommandPath() + " " + kind.name; {
	case kind.argument == "" && len(args) > 1:
		return fmt.Errorf("%s takes no arguments, and was given %q", path, args[1])
	case kind.argument == "":
		return nil
	case len(args) != 2:
		return fmt.Errorf("%s takes %s, and was given %d arguments", path, kind.argument, len(args)-1)
	}
	return kind.check(args[1])
}

// completeArgs completes the kind, and then the name of a Node where the kind is about one.
func (o *acceptOptions) completeArgs(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return o.names(), cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && args[0] == recordKind:
		return o.complete(completeNodes)(command, nil, begun)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (o *acceptOptions) validate() error { return nil }

func (o *acceptOptions) rights(c *session, args []string) []doctor.Right {
	kind, _ := o.kind(args[0])
	return kind.rights(c, argumentOf(args))
}

func (o *acceptOptions) run(ctx context.Context, c *session, args []string) error {
	kind, _ := o.kind(args[0])
	return kind.accept(ctx, c, argumentOf(args))
}

// checkHash returns an error for what cannot be a hash.
func checkHash(argument string) error {
	if argument == "" {
		return errors.New("the hash is empty: the Event ChangesHeld and nodekeep doctor show it")
	}
	return nil
}

// argumentOf returns the argument behind the kind; empty: there is none. From the name of a Node it strips the prefix node/, which -o name prints.
func argumentOf(args []string) string {
	if len(args) < 2 {
		return ""
	}
	if name, err := nodeName(args[1]); err == nil && args[0] == recordKind {
		return name
	}
	return args[1]
}

// acceptVerbs returns the RBAC verbs that an accept needs on the object that it writes: get, and those that write unless it is a dry run.
func (o *options) acceptVerbs(writing ...string) []string {
	if o.dryRun {
		return []string{"get"}
	}
	return append([]string{"get"}, writing...)
}
