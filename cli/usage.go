package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// writeUsage is what help and a wrong call show: the command's own flags. Those that all have in common are shown by the
// command `options`, as in kubectl.
func writeUsage(w io.Writer, command *cobra.Command) error {
	text := "Usage:\n  " + command.UseLine() + "\n"
	if command.HasExample() {
		text += "\nExamples:\n" + command.Example + "\n"
	}
	if own := ownFlags(command); own.HasFlags() {
		text += "\nFlags:\n" + own.FlagUsages()
	}
	text += fmt.Sprintf("\nUse %q for the flags that say which cluster and as whom; they are kubectl's.\n", command.Root().DisplayName()+" options")
	_, err := io.WriteString(w, text)
	return err
}

// optionsCommand is the command that shows what commands have in common.
const optionsCommand = "options"

const aboutOptions = "These flags work with every operator's command. They are kubectl's, but for the namespace that --namespace stands for: that of\n" +
	"the kubeconfig's context says where somebody works, and does not count here."

func newOptionsCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:     optionsCommand,
		Short:   "The flags that all operator's commands have in common",
		GroupID: groupSee,
		Args:    func(command *cobra.Command, args []string) error { return usage(none(command, args)) },
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(streams.Out, aboutOptions, "\n\n", commonFlags())
			return err
		},
	}
}

// commonFlags are what `options` prints.
func commonFlags() string {
	flags := pflag.NewFlagSet("options", pflag.ContinueOnError)
	newConnection(genericiooptions.NewTestIOStreamsDiscard()).addTo(flags)
	return flags.FlagUsages()
}

// HideCommonFlags makes the documentation of a command leave out the flags that all have in common; that of `options` has
// them.
func HideCommonFlags(command *cobra.Command) {
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, common := flag.Annotations[commonFlag]; common {
			flag.Hidden = true
		}
	})
	if command.Name() == optionsCommand {
		command.Long = aboutOptions + "\n\n```\n" + commonFlags() + "```\n"
	}
}
