package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli"
)

// Exit codes of the processes; those of the operator's commands are in package cli.
const (
	exitFailed = 1 // ended by an error
	exitUsage  = 2 // wrong command, flags or files; nothing was started
)

func main() {
	os.Exit(run())
}

func run() (exitCode int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	streams := cli.EscapeTerminal(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	root := newCommand(called(os.Args[0]), streams)
	root.SetArgs(arguments(os.Args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if message := err.Error(); message != "" {
		_, _ = fmt.Fprintln(streams.ErrOut, message)
	}
	if code, ofCommand := cli.ExitCode(err); ofCommand {
		return code
	}
	if errors.As(err, &runError{}) {
		return exitFailed
	}
	return exitUsage
}
