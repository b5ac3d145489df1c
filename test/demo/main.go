package main

import (
	"context"
	"fmt"
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
	story := &cobra.Command{
		Use: "story", Short: "tell the whole story and clean up", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return tell(command.Context(), command.OutOrStdout()) },
	}
	up := &cobra.Command{
		Use: "up", Short: "start a control plane with nodekeep on it and leave it running", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return bringUp(command.Context(), command.OutOrStdout(), dir)
		},
	}
	down := &cobra.Command{
		Use: "down", Short: "stop what up started", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return bringDown(command.OutOrStdout(), dir) },
	}
	for _, c := range []*cobra.Command{up, down} {
		c.Flags().StringVar(&dir, "dir", ".demo", "folder for data, logs and the kubeconfig")
	}
	root.AddCommand(story, up, down)
	return root
}
