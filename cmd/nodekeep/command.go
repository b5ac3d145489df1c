package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	root.AddCommand(
		processCommand("webhook", "Restore labels while Nodes register: serves the mutating admission webhook", webhookLong, &webhookOptions{}, start, runWebhook),
		processCommand("capture", "Record labels of Nodes, and restore what admission could not", captureLong, &captureOptions{}, start, runCapture),
		processCommand("verify", "Check each new Node, and open it once it has passed", verifyLong, &verifyOptions{}, startWithoutRecords, runVerify),
		newWorkerCommand(), newProbeCommand(), newVersionCommand(),
	)
	cli.AddCommands(root, streams)
	return root
}

// What the processes do, and what each of them needs.
const (
	webhookLong = `The webhook runs in the cluster, as a Deployment of the manifests. The API server calls it for each Node that registers
and each Node that is deleted. It needs a certificate that the webhook configurations trust: by default it makes one
itself, and keeps it in a Secret.`
	captureLong = `capture runs in the cluster, as a Deployment of the manifests. It watches the Nodes and writes one record for each, a
ConfigMap. It needs the rights of its ServiceAccount to change Nodes and records. Of several replicas, one leads and the
others wait.`
	verifyLong = `verify runs in the cluster, as a Deployment of the manifests. It runs a worker Pod on each Node that a profile of the
policy selects, and removes the taint of verification once the checks have passed. It needs the namespace for worker
Pods. Of several replicas, one leads and the others wait.`
)

// processOptions are the flags of a process.
type processOptions interface {
	addTo(flags *pflag.FlagSet)
	mistakes() []error
	common() *commonOptions
}

// processCommand runs a process, unless there is any error in its flags and files.
func processCommand[O processOptions](
	name, short, long string, o O, start func(*commonOptions, []error) (*process, error), run func(context.Context, O, *process) error,
) *cobra.Command {
	command := &cobra.Command{
		Use:     name,
		GroupID: processes,
		Short:   short,
		Long:    long,
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			parts, err := start(o.common(), o.mistakes())
			if err != nil {
				return err
			}
			if err := run(command.Context(), o, parts); err != nil {
				return runError{err}
			}
			return nil
		},
	}
	o.addTo(command.Flags())
	command.SetFlagErrorFunc(everyFlagError(o.common(), o.mistakes))
	return command
}
