package tool

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

func newOptionsCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:     "options",
		Short:   "The flags that all operator's commands have in common",
		GroupID: groupSee,
		Args:    func(command *cobra.Command, args []string) error { return usage(none(command, args)) },
		RunE: func(*cobra.Command, []string) error {
			flags := pflag.NewFlagSet("options", pflag.ContinueOnError)
			newConnection(streams).addTo(flags)
			_, err := fmt.Fprint(streams.Out, "These flags work with every command of the operator's:\n\n", flags.FlagUsages())
			return err
		},
	}
}
