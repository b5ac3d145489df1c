package main

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli"
)

// The groups of commands that are none of the operator's.
const (
	processes    = "processes"    // what runs in the cluster
	installation = "installation" // what is told of it, and how it goes
)

// newCommand is everything that the program can do, under the name that it is called by.
func newCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   "nodekeep",
		Short: "Node labels that survive the Node",
		Long: "nodekeep remembers the labels of every Node and restores them when the Node registers again,\n" +
			"from the first moment anyone can see it.",
		Version:       thisBuild().version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	root.AddGroup(&cobra.Group{ID: processes, Title: "The two processes:"}, &cobra.Group{ID: installation, Title: "The installation:"})
	root.AddCommand(newWebhookCommand(), newCaptureCommand(), newVersionCommand())
	cli.AddTo(root, streams)
	return root
}

func newWebhookCommand() *cobra.Command {
	o := &webhookOptions{}
	command := &cobra.Command{
		Use:     "webhook",
		GroupID: processes,
		Short:   "Restore labels while Nodes register: serves the mutating admission webhook",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			parts, err := start(&o.commonOptions, o.mistakes())
			if err != nil {
				return err
			}
			return ran(runWebhook(command.Context(), o, parts))
		},
	}
	o.addTo(command.Flags())
	command.SetFlagErrorFunc(everyFlagError(&o.commonOptions, o.mistakes))
	return command
}

func newCaptureCommand() *cobra.Command {
	o := &captureOptions{}
	command := &cobra.Command{
		Use:     "capture",
		GroupID: processes,
		Short:   "Record labels of Nodes, and give back what admission could not restore",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			parts, err := start(&o.commonOptions, o.mistakes())
			if err != nil {
				return err
			}
			return ran(runCapture(command.Context(), o, parts))
		},
	}
	o.addTo(command.Flags())
	command.SetFlagErrorFunc(everyFlagError(&o.commonOptions, o.mistakes))
	return command
}
