package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// program is the name that help texts are written with; under kubectl they say "kubectl nodekeep" instead.
const program = "nodekeep"

// The groups of commands in the help.
const (
	groupSee = "see"
	groupAct = "act"
)

// AddTo adds the operator's commands to the root command.
func AddTo(root *cobra.Command, streams genericiooptions.IOStreams) {
	root.AddGroup(&cobra.Group{ID: groupSee, Title: "See and explain:"}, &cobra.Group{ID: groupAct, Title: "Undo and change:"})
	for _, make := range []func(genericiooptions.IOStreams) *cobra.Command{
		newListCommand, newShowCommand, newDiffCommand, newExplainCommand, newHistoryCommand, newRollbackCommand,
		newPolicyCommand, newDoctorCommand,
		newForgetCommand, newRememberCommand, newAcceptCommand, newPruneCommand, newGateCommand,
	} {
		command := make(streams)
		root.AddCommand(command)
		writeExamples(root.DisplayName(), command)
	}
	root.AddCommand(newOptionsCommand(streams))
}

// newCommand completes a command of the tool's: flags that say which cluster and who, exit codes, and a usage text that
// leaves out kubectl's flags.
func newCommand(command *cobra.Command, cluster *connection, run func(ctx context.Context, args []string) error) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		return ended(command.Context(), run(command.Context(), args))
	}
	command.DisableFlagsInUseLine = true
	args := command.Args
	command.Args = func(command *cobra.Command, given []string) error { return usage(args(command, given)) }
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	cluster.addTo(command.Flags())
	command.SetUsageFunc(func(command *cobra.Command) error { return writeUsage(command.OutOrStderr(), command) })
	return command
}

// newGroupCommand is a command that only holds others.
func newGroupCommand(command *cobra.Command, below ...*cobra.Command) *cobra.Command {
	command.DisableFlagsInUseLine = true
	command.Args = cobra.ArbitraryArgs
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(fmt.Errorf("unknown command %q for %q; --help lists what there is", args[0], command.CommandPath()))
		}
		return command.Help()
	}
	command.AddCommand(below...)
	return command
}

// writeExamples completes the examples of a command and of those below it.
func writeExamples(name string, command *cobra.Command) {
	if command.HasExample() {
		command.Example = examples(name, command.Example)
	}
	for _, below := range command.Commands() {
		writeExamples(name, below)
	}
}

// examples writes the name of the program as it was called, and indents as kubectl does.
func examples(name, text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
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
	return strings.Join(lines, "\n")
}

// oneNode takes exactly one argument, the name of a Node.
func oneNode(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one Node, and was given %d arguments", command.CommandPath(), len(args))
	}
	_, err := nodeName(args[0])
	return err
}

// none takes no arguments.
func none(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and was given %q", command.CommandPath(), args[0])
	}
	return nil
}

// ownFlags are a command's flags without those that all have in common.
func ownFlags(command *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet(command.Name(), pflag.ContinueOnError)
	own.SortFlags = false
	command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if _, common := flag.Annotations[commonFlag]; !common {
			own.AddFlag(flag)
		}
	})
	return own
}
