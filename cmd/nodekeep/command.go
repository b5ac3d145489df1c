package main

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli"
)

// The groups of commands that are none of the operator's.
const (
	processes    = "processes"    // what runs in the cluster
	installation = "installation" // its help, and its action
)

// newCommand is everything that the program can do, under the name that it is called by.
func newCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   "nodekeep",
		Short: "Node labels and taints that survive the Node",
		Long: "nodekeep records the labels and taints of every Node. It restores them when the Node registers again,\n" +
			"in the request that creates the Node.",
		Version:       thisBuild().version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	root.AddGroup(&cobra.Group{ID: processes, Title: "The processes:"}, &cobra.Group{ID: installation, Title: "The installation:"})
	root.AddCommand(newWebhookCommand(), newCaptureCommand(), newVerifyCommand(), newCheckCommand(), newVersionCommand())
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
		Short:   "Record labels of Nodes, and restore what admission could not",
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

func newVerifyCommand() *cobra.Command {
	o := &verifyOptions{}
	command := &cobra.Command{
		Use:     "verify",
		GroupID: processes,
		Short:   "Check each new Node, and open it once it passed; list, show, run, release",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			parts, err := startWithoutRecords(&o.commonOptions, o.mistakes())
			if err != nil {
				return err
			}
			return ran(runVerify(command.Context(), o, parts))
		},
	}
	o.addTo(command.Flags())
	command.SetFlagErrorFunc(everyFlagError(&o.commonOptions, o.mistakes))
	return command
}
