package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/plan"
)

// program is the name that help texts are written with; under kubectl they say "kubectl nodekeep" instead.
const program = "nodekeep"

// The groups of commands in the help.
const (
	groupSee = "see"
	groupAct = "act"
)

// AddCommands adds the operator's commands to the root command.
func AddCommands(root *cobra.Command, streams genericiooptions.IOStreams) {
	root.AddGroup(&cobra.Group{ID: groupSee, Title: "Read:"}, &cobra.Group{ID: groupAct, Title: "Change:"})
	for _, make := range []func(genericiooptions.IOStreams) *cobra.Command{
		newListCommand, newShowCommand, newExplainCommand, newReportCommand, newDoctorCommand, newCheckCommand,
		newAcceptCommand, newRollbackCommand, newForgetCommand, newReleaseCommand, newRecheckCommand,
		newEmergencyCommand, newUninstallCommand,
	} {
		command := make(streams)
		root.AddCommand(command)
		writeExamples(root.DisplayName(), command)
	}
	root.SetUsageTemplate(root.UsageTemplate() + "{{if not .HasParent}}\n" + aboutCommonFlags + "\n\n" + commonFlags() + "\n{{end}}")
}

// options are the flags that several commands have. A command has those that its traits name.
type options struct {
	*connection
	output
	policy   policySource
	yes      bool
	dryRun   bool
	offline  bool         // no cluster is asked: decisions depend on flags and files alone
	validate func() error // checks the command's own flags before anything is read; nil: there is nothing to check
	// rights are those that the command needs; nil: none but those of its flags.
	rights func(c *session, args []string) []doctor.Right
	// effectiveTraits returns the command's traits without those that its other flags make unnecessary; nil: all of them are needed.
	effectiveTraits func() commandTraits
}

// task is a command whose checks, rights and run are methods of its type, which embeds [options]; see [options.finishWithMethods].
type task interface {
	validate() error
	rights(c *session, args []string) []doctor.Right
	run(ctx context.Context, c *session, args []string) error
}

func newOptions(streams genericiooptions.IOStreams) *options {
	return &options{connection: newConnection(streams)}
}

// commandTraits is what a command takes besides its own flags.
type commandTraits int

const (
	takesNode       commandTraits = 1 << iota // its first argument is the name of a Node
	hasOutput                                 // -o
	hasGateKey                                // --gate-key
	hasPolicy                                 // --policy and --gate-key: what it shows or does depends on the policy
	hasConfirmation                           // --yes and --dry-run: it changes something
)

// addFlags adds the flags of these traits.
func (o *options) addFlags(command *cobra.Command, traits commandTraits) {
	if traits&hasOutput != 0 {
		o.output.addFlags(command)
	}
	switch {
	case traits&hasPolicy != 0:
		o.policy.addFlags(command)
	case traits&hasGateKey != 0:
		o.policy.addGateFlag(command)
	}
	if traits&hasConfirmation != 0 {
		command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
		command.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would be done; it takes no value, unlike the flag of kubectl")
	}
}

// finishCommand completes a cobra command: it adds flags and argument checks, and wraps run. Without Args, the command takes the name of a Node if it is about
// one, and else no argument. It calls run once the flags and rights are checked and the policy was read. The error of run gets an exit code.
func (o *options) finishCommand(command *cobra.Command, traits commandTraits, run func(ctx context.Context, c *session, args []string) error) *cobra.Command {
	args := command.Args
	if args == nil {
		args = noArgs
	}
	if traits&takesNode != 0 {
		if command.Args == nil {
			args = oneNode
		}
		if command.ValidArgsFunction == nil {
			command.ValidArgsFunction = o.complete(completeNodes)
		}
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if traits&takesNode != 0 && len(args) > 0 {
			args[0], _ = nodeName(args[0]) // Args has checked it
		}
		c, err := o.newSession(command.Context(), traits, args)
		if err == nil {
			err = run(command.Context(), c, args)
		}
		return asExitError(command.Context(), err)
	}
	command.DisableFlagsInUseLine = true
	command.Args = func(command *cobra.Command, given []string) error { return asUsage(args(command, given)) }
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return asUsage(err) })
	o.connection.addFlags(command.Flags())
	o.addFlags(command, traits)
	write := command.UsageFunc()
	command.SetUsageFunc(func(command *cobra.Command) error { // without kubectl's flags
		HideCommonFlags(command)
		if err := write(command); err != nil {
			return err
		}
		_, err := fmt.Fprintf(command.OutOrStderr(), "\nUse %q for kubectl's flags (cluster, user, namespace), which work here, too.\n", command.Root().DisplayName()+" --help")
		return err
	})
	return command
}

// finishWithMethods completes a command by its methods.
func (o *options) finishWithMethods(command *cobra.Command, traits commandTraits, t task) *cobra.Command {
	o.validate, o.rights = t.validate, t.rights
	return o.finishCommand(command, traits, t.run)
}

func (o *options) newSession(ctx context.Context, traits commandTraits, args []string) (*session, error) {
	if o.validate != nil {
		if err := o.validate(); err != nil {
			return nil, asUsage(err)
		}
	}
	if traits&hasOutput != 0 {
		if err := o.validateFormat(); err != nil {
			return nil, err
		}
	}
	if err := o.policy.validate(); err != nil {
		return nil, err
	}
	if o.effectiveTraits != nil {
		traits = o.effectiveTraits()
	}
	if o.offline {
		p, err := o.policy.read(ctx, nil)
		return &session{Cluster: &cluster.Cluster{Now: time.Now}, IOStreams: o.IOStreams, inputs: plan.Inputs{Policy: p, Now: time.Now()}}, err
	}
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	if err := c.RequireRights(ctx, o.requiredRights(c, traits, args)); err != nil {
		return nil, err
	}
	switch {
	case traits&hasPolicy != 0:
		p, err := o.policy.read(ctx, c)
		if err != nil {
			return nil, err
		}
		c.usePolicy(ctx, p)
		if o.policy.file == "" { // with --policy, it shows what those rules set, held or not
			held, err := c.HoldsRules(ctx, p)
			if err != nil {
				return nil, err
			}
			c.inputs.Policy = p.WithRulesHeld(held)
		}
	case traits&hasGateKey != 0:
		c.gate, err = o.policy.gate(ctx, c)
	}
	return c, err
}

// oneArg takes exactly one argument, and checks it.
func oneArg(name string, check func(argument string) error) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes %s, and was given %d arguments", command.CommandPath(), name, len(args))
		}
		return check(args[0])
	}
}

func unchecked(string) error { return nil }

// oneNode takes exactly one argument, the name of a Node.
func oneNode(command *cobra.Command, args []string) error {
	return oneArg("the name of one Node", func(argument string) error {
		_, err := nodeName(argument)
		return err
	})(command, args)
}

// checkLabelKey returns an error for what cannot be the key of a label.
func checkLabelKey(key string) error {
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		return fmt.Errorf("%q cannot be the key of a label: %s", key, wrong[0])
	}
	return nil
}

// noArgs takes no arguments.
func noArgs(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and was given %q", command.CommandPath(), args[0])
	}
	return nil
}

// writeExamples completes the examples of a command and of its subcommands. They show the name under which the program was called, and are indented
// as kubectl's.
func writeExamples(name string, command *cobra.Command) {
	if command.HasExample() {
		lines := strings.Split(strings.TrimSpace(command.Example), "\n")
		for i, line := range lines {
			line = strings.TrimSpace(line)
			if rest, ours := strings.CutPrefix(line, program+" "); ours {
				line = name + " " + rest
			}
			if line != "" {
				line = "  " + line
			}
			lines[i] = line
		}
		command.Example = strings.Join(lines, "\n")
	}
	for _, below := range command.Commands() {
		writeExamples(name, below)
	}
}

const aboutCommonFlags = "These flags work with every operator's command. They are kubectl's, but --namespace is the namespace that nodekeep is\n" +
	"installed in. The namespace of the kubeconfig's context does not count here."

// commonFlags returns the help of the flags that all commands have in common.
func commonFlags() string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	newConnection(genericiooptions.NewTestIOStreamsDiscard()).addFlags(flags)
	return strings.TrimRight(flags.FlagUsages(), "\n")
}

// HideCommonFlags hides the flags that all commands have in common from the help and the documentation of a command. The help of the program lists
// them.
func HideCommonFlags(command *cobra.Command) {
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, common := flag.Annotations[commonFlag]; common {
			flag.Hidden = true
		}
	})
}

// addChoiceFlag adds a flag that a shell completes by its values.
func addChoiceFlag(command *cobra.Command, value *string, name, text string, values ...string) {
	command.Flags().StringVar(value, name, *value, text)
	_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
