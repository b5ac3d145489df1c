package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var dir string
	root := &cobra.Command{Use: "demo", Short: "nodekeep at work on a real control plane", SilenceUsage: true, SilenceErrors: true}
	run := &cobra.Command{
		Use: "run", Short: "show how a Node loses its labels and gets them back, and stop everything", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return runScenario(command.Context(), command.OutOrStdout())
		},
	}
	record := &cobra.Command{
		Use: "record FILE", Short: "do the same, and write what it printed as a moving picture (SVG)", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			var printed bytes.Buffer
			if err := runScenario(command.Context(), io.MultiWriter(command.OutOrStdout(), &printed)); err != nil {
				return err
			}
			return os.WriteFile(args[0], recording(printed.String()), 0o644)
		},
	}
	start := &cobra.Command{
		Use: "up", Short: "start a control plane with nodekeep on it and leave it running", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return bringUp(command.Context(), command.OutOrStdout(), dir)
		},
	}
	stop := &cobra.Command{
		Use: "down", Short: "stop what up started", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return bringDown(command.OutOrStdout(), dir) },
	}
	for _, c := range []*cobra.Command{start, stop} {
		c.Flags().StringVar(&dir, "dir", ".demo", "folder for data, logs and the kubeconfig")
	}
	root.AddCommand(run, record, start, stop)
	return root
}
