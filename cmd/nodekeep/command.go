package main

import "github.com/spf13/cobra"

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "nodekeep",
		Short: "Node labels that survive the Node",
		Long: "nodekeep remembers the labels of every Node and restores them when the Node registers again,\n" +
			"from the first moment anyone can see it.",
		Version:       thisBuild().version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newWebhookCommand(), newCaptureCommand(), newUninstallCommand(), newVersionCommand())
	return root
}

func newWebhookCommand() *cobra.Command {
	o := &webhookOptions{}
	command := &cobra.Command{
		Use:   "webhook",
		Short: "Restore labels while Nodes register: serves the mutating admission webhook",
		Args:  noArguments,
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
		Use:   "capture",
		Short: "Record labels of Nodes, and give back what admission could not restore",
		Args:  noArguments,
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
