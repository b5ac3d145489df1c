package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// pause holds the namespaces of a pod until it is stopped.
func pause(args []string) error {
	if err := unix.Sethostname([]byte(args[0])); err != nil {
		return fmt.Errorf("set host name of pod: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	return nil
}
